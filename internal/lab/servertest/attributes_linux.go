//go:build go1.25

package servertest

import "syscall"

// attributes let a server die with us, even when we are killed.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
}
