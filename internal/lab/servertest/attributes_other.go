//go:build unix && !linux && go1.25

package servertest

import "syscall"

func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}
