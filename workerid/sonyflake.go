package workerid

import (
	"fmt"
	"net"
)

// SonyflakeMachineID returns the default machine ID of sonyflake 1.3 and 2.2, 0 to 65535: the low
// 16 bits of the host's first IPv4 address that is private or link-local (169.254.0.0/16). With it
// a program that used sonyflake keeps its machine ID on the day of the move. If there is no such
// address, the error matches [ErrNoWorkerID].
//
// HAZARD: another address may become the first when an interface is added, such as a container
// engine's. Hosts whose addresses differ only in the first 16 bits have the same number, and so do
// all processes of a host. Lease the worker ID as soon as you can.
func SonyflakeMachineID() (int, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return 0, fmt.Errorf("workerid: the addresses of the host: %w", err)
	}
	return sonyflakeMachineID(addresses)
}

func sonyflakeMachineID(addresses []net.Addr) (int, error) {
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip := network.IP.To4()
		if ip != nil && (ip.IsPrivate() || ip.IsLinkLocalUnicast()) {
			return int(ip[2])<<8 | int(ip[3]), nil
		}
	}
	return 0, fmt.Errorf("%w: no private or link-local IPv4 address", ErrNoWorkerID)
}
