package workerid

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// FromPrivateIP returns the host part (see [FromIP]) of the host's private IPv4 address, in
// 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16 (RFC 1918). If there is not exactly one such address
// on the interfaces that are up, except loopback, the error matches [ErrNoWorkerID].
//
// HAZARD: different hosts often get the same number. 10.1.0.7/24 and 10.2.0.7/24 are both worker 7.
// Containers on two hosts, each with its own bridge network, can both have 172.17.0.7/16. All
// processes of one host have the same number. If DHCP or a new container reuses an address, the
// process that had it before may still run, cut off or paused. Lease the worker ID, unless all
// processes are on one network and no address is reused.
func FromPrivateIP(l snowflake.Layout) (int, error) {
	all, err := interfaces()
	if err != nil {
		return 0, fmt.Errorf("workerid: the interfaces of the host: %w", err)
	}
	return fromInterfaces(all, l)
}

// FromIP returns the host part of address, which is all bits after the prefix: 7 for 10.1.0.7/24
// and 263 for 10.1.1.7/22. Every host part of the network must fit the layout's worker bits, not
// only this host's: 10.1.0.7/16 needs 16 worker bits. If they do not fit, the error's Value is the
// largest host part.
//
// The error matches [ErrNoWorkerID] if the address has no host part, such as 10.1.0.7/32, or if it
// is the address of a network, such as 10.1.0.0/24. Some container networks and clouds give each
// host a /32.
//
// HAZARD: different hosts often get the same number: see [FromPrivateIP].
func FromIP(address netip.Prefix, l snowflake.Layout) (int, error) {
	if !address.IsValid() {
		return 0, fmt.Errorf("%w: the address is not valid", ErrNoWorkerID)
	}
	width := address.Addr().BitLen() - address.Bits()
	if width == 0 {
		return 0, fmt.Errorf("%w: %v has no host part", ErrNoWorkerID, address)
	}
	if err := l.Validate(); err != nil {
		return 0, err
	}
	mask := math.MaxInt >> max(strconv.IntSize-1-width, 0)
	if width > int(l.WorkerBits) {
		return 0, fmt.Errorf("workerid: the host part of %v has %d bits: %w", address, width, tooLarge(mask, l))
	}
	bytes := address.Addr().As16()
	worker := int(binary.BigEndian.Uint64(bytes[8:])) & mask
	if worker == 0 && width > 1 { // in a network of two addresses, both are hosts
		return 0, fmt.Errorf("%w: %v is a network, not the address of a host", ErrNoWorkerID, address)
	}
	return worker, nil
}

// iface is one of the host's network interfaces.
type iface struct {
	name      string
	flags     net.Flags
	addresses []netip.Prefix
}

// interfaces returns the host's network interfaces.
func interfaces() ([]iface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []iface
	for _, i := range list {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		this := iface{name: i.Name, flags: i.Flags}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil { // not so for anycast addresses
				this.addresses = append(this.addresses, p)
			}
		}
		all = append(all, this)
	}
	return all, nil
}

// fromInterfaces is FromPrivateIP for a host with the interfaces all.
func fromInterfaces(all []iface, l snowflake.Layout) (int, error) {
	var found []netip.Prefix
	var names, where []string
	for _, i := range all {
		if i.flags&net.FlagUp == 0 || i.flags&net.FlagLoopback != 0 {
			continue
		}
		names = append(names, i.name)
		for _, a := range i.addresses {
			if a.Addr().Is4() && a.Addr().IsPrivate() {
				found = append(found, a)
				where = append(where, fmt.Sprintf("%v (%s)", a, i.name))
			}
		}
	}
	switch {
	case len(names) == 0:
		return 0, fmt.Errorf("%w: no interface is up except loopback", ErrNoWorkerID)
	case len(found) == 0:
		return 0, fmt.Errorf("%w: no private IPv4 address on %s", ErrNoWorkerID, strings.Join(names, ", "))
	case len(found) > 1:
		return 0, fmt.Errorf("%w: %d private IPv4 addresses: %s", ErrNoWorkerID, len(found), strings.Join(where, ", "))
	}
	return FromIP(found[0], l)
}
