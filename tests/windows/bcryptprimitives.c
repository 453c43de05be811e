/* Stands in for Windows' bcryptprimitives.dll, which Wine 8 lacks and without which a Rust program ends silently with
   code 53. It is for tests under Wine only: a real Windows has its own. Rust's std uses ProcessPrng of it, no more. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG length); /* RtlGenRandom, of advapi32 */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length)
{
    while (length > 0) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(bytes, part))
            return FALSE;
        bytes += part;
        length -= part;
    }
    return TRUE;
}
