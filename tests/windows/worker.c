/* A program that jobs of the checks run, as there is no Python under Wine. What it does is its first word:
     lines N MS      N numbered lines with a pause after each, then a result
     gentle          waits; at Ctrl-Break it says so and ends with 75, as a training does that has saved
     tree N MARK     starts N copies that start N copies, all deaf to Ctrl-Break, and waits for ever
     left MARK       starts a copy that stays, and ends at once
     deaf MARK       waits for ever, deaf to Ctrl-Break
     exit CODE       ends with that
     crash           writes where nothing is
     many N          starts N copies at once, says how many could be started, and ends them
     env             says the names of its variables */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

static BOOL WINAPI hear(DWORD event)
{
    if (event != CTRL_BREAK_EVENT)
        return FALSE;
    puts("saved");
    fflush(stdout);
    ExitProcess(75);
}

static BOOL WINAPI ignore(DWORD event)
{
    (void)event;
    return TRUE;
}

static HANDLE start(const char *words)
{
    char line[1024], own[MAX_PATH];
    STARTUPINFOA how = {.cb = sizeof how};
    PROCESS_INFORMATION made;
    GetModuleFileNameA(NULL, own, sizeof own);
    snprintf(line, sizeof line, "\"%s\" %s", own, words);
    if (!CreateProcessA(own, line, NULL, NULL, FALSE, 0, NULL, NULL, &how, &made))
        return NULL;
    CloseHandle(made.hThread);
    return made.hProcess;
}

static void report(const char *line)
{
    const char *path = getenv("SWEEP_REPORT");
    FILE *file = path ? fopen(path, "ab") : NULL;
    if (!file)
        exit(66);
    fprintf(file, "%s\n", line);
    fclose(file);
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    const char *mark = count > 2 ? words[2] : "";
    char line[256];
    if (!strcmp(what, "lines")) {
        int lines = atoi(words[2]), pause = atoi(words[3]);
        for (int n = 1; n <= lines; n++) {
            printf("line %d\n", n);
            fflush(stdout);
            Sleep(pause);
        }
        snprintf(line, sizeof line, "{\"result\": {\"lines\": %d}}", lines);
        report(line);
        return 0;
    }
    if (!strcmp(what, "gentle")) {
        SetConsoleCtrlHandler(hear, TRUE);
        puts("ready");
        fflush(stdout);
        Sleep(INFINITE);
    }
    if (!strcmp(what, "tree")) {
        int each = atoi(words[2]);
        mark = words[3];
        SetConsoleCtrlHandler(ignore, TRUE);
        for (int n = 0; n < each; n++) {
            snprintf(line, sizeof line, "tree %d %s", each - 1, mark);
            start(line);
        }
        puts("ready");
        fflush(stdout);
        Sleep(INFINITE);
    }
    if (!strcmp(what, "left")) {
        snprintf(line, sizeof line, "deaf %s", mark);
        return start(line) ? 0 : 1;
    }
    if (!strcmp(what, "deaf")) {
        SetConsoleCtrlHandler(ignore, TRUE);
        Sleep(INFINITE);
    }
    if (!strcmp(what, "exit"))
        return atoi(words[2]);
    if (!strcmp(what, "crash"))
        *(volatile int *)8 = 1;
    if (!strcmp(what, "many")) {
        int made = 0, wanted = atoi(words[2]);
        for (int n = 0; n < wanted; n++)
            made += start("deaf x") != NULL;
        printf("started %d of %d\n", made, wanted);
        return made == wanted ? 0 : 3;
    }
    if (!strcmp(what, "env")) {
        char *all = GetEnvironmentStringsA();
        for (char *one = all; *one; one += strlen(one) + 1)
            if (*one != '=')
                printf("%.*s\n", (int)strcspn(one, "="), one);
        return 0;
    }
    return 64;
}
