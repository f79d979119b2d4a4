// What Go asks of Windows 10 and Debian's wine 8 does not have. Go loads this library first, because of its name.

#include <windows.h>
#include <winternl.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG); // RtlGenRandom

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }

// os.RemoveAll asks for class 64 of NtSetInformationFile, which Windows has had since 2016. Windows before then
// says that it does not know the class, and Go asks in the older way. Wine says something else.

enum { FileDispositionInformationEx = 64, STATUS_INVALID_INFO_CLASS = 0xC0000003 };

typedef NTSTATUS(NTAPI *set_t)(HANDLE, PIO_STATUS_BLOCK, PVOID, ULONG, int);

static set_t wines;

static NTSTATUS NTAPI set(HANDLE file, PIO_STATUS_BLOCK status, PVOID info, ULONG size, int class) {
	if (class == FileDispositionInformationEx) return STATUS_INVALID_INFO_CLASS;
	return wines(file, status, info, size, class);
}

// DllMain makes NtSetInformationFile jump to set. Wine's own is 32 bytes of code, which run anywhere.
BOOL WINAPI DllMain(HINSTANCE self, DWORD why, LPVOID reserved) {
	enum { length = 32 };
	(void)self, (void)reserved;
	if (why != DLL_PROCESS_ATTACH) return TRUE;
	unsigned char *at = (void *)GetProcAddress(GetModuleHandleA("ntdll"), "NtSetInformationFile");
	void *copy = VirtualAlloc(NULL, length, MEM_COMMIT | MEM_RESERVE, PAGE_EXECUTE_READWRITE);
	DWORD old;
	if (!at || !copy || !VirtualProtect(at, length, PAGE_EXECUTE_READWRITE, &old)) return FALSE;
	wines = memcpy(copy, at, length);
	set_t target = set;
	memcpy(at, "\x48\xb8", 2); // mov rax, target
	memcpy(at + 2, &target, 8);
	memcpy(at + 10, "\xff\xe0", 2); // jmp rax
	return VirtualProtect(at, length, old, &old);
}
