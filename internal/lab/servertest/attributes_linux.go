//go:build go1.25

package servertest

import "syscall"

// attributes returns attributes with which a server dies with this process, even if this process is
// killed.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
}
