# Installs the agent of a Windows host: the host file, then `sweep agent install`, then a look at what it came to.
# In a PowerShell that runs as administrator:
#
#   .\install.ps1 -Coordinator https://keeper:7480 -TokenFile token.txt -HostFile ..\hosts\windows-7900xtx.toml
#
# Again is an upgrade in place: attempts go on, and a host file that is there is kept. It decides one thing: without -Mode
# the doctor looks from a service's session first, and where the GPU is not seen there, the agent becomes a task at logon
# of this user. Needs sweep.exe beside it, or -Program. Changes no firewall: the agent dials out only.
[CmdletBinding()]
param(
    [Parameter(Mandatory)] [string] $Coordinator,
    [string] $TokenFile,
    [string] $HostFile,
    [ValidateSet('', 'service', 'logon-task')] [string] $Mode = '',
    [string] $Program = (Join-Path $PSScriptRoot 'sweep.exe')
)
$ErrorActionPreference = 'Stop'

$who = [Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()
if (-not $who.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
    throw 'install.ps1 needs an administrator: start PowerShell with "Run as administrator"'
}
if (-not (Test-Path $Program)) {
    throw "there is no $Program; build it (tests/windows/run --build) or name it with -Program"
}

$folder = Join-Path $env:ProgramData 'sweep'
$config = Join-Path $folder 'agent.toml'
New-Item -ItemType Directory -Force $folder | Out-Null
if ($HostFile -and -not (Test-Path $config)) {
    Copy-Item $HostFile $config
    Write-Host "host file: $config"
}

if (-not $Mode) {
    $Mode = 'service'
    if (Test-Path $config) {
        & $Program --data (Join-Path $folder 'data') agent doctor --in-service --config $config
        # 1: something failed there. The doctor says what; what the GPU fails is the reason for a task at logon.
        if ($LASTEXITCODE -eq 1) {
            & $Program --data (Join-Path $folder 'data') agent doctor --config $config
            if ($LASTEXITCODE -eq 0) {
                $Mode = 'logon-task'
                Write-Host 'what failed in the session of services works in yours: the agent starts when you log on'
            }
        }
    }
}

$words = @('--coordinator', $Coordinator, 'agent', 'install', '--mode', $Mode)
if ($TokenFile) { $words += @('--token-file', $TokenFile) }
& $Program @words
if ($LASTEXITCODE -ne 0) { throw "sweep agent install ended with $LASTEXITCODE" }

Write-Host "installed as $Mode; its log: $(Join-Path $folder 'data\logs')"
