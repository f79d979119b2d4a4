package workerid

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

var prefix = netip.MustParsePrefix

func FuzzFromIP(f *testing.F) {
	for address, n := range map[string]uint8{
		"10.1.0.7/24": 8, "10.1.1.7/22": 10, "192.168.255.254/16": 16, "10.255.255.254/8": 22,
		"10.1.0.6/31": 1, "10.1.0.7/31": 1, "203.0.113.9/28": 10,
		"fd00::1:2/112": 16, "fd00::1:2/108": 20, "::ffff:10.1.0.7/120": 8,
		"10.1.0.7/16": 10, // 7 would fit, but 10.1.1.7, for example, would have to be cut
		"10.1.0.8/24": 7, "10.1.0.7/0": 22, "fd00::7/64": 22, "fd00::7/0": 22, "fd00::7/1": 31,
		"10.1.0.7/32": 10, "fd00::7/128": 10, "10.1.0.0/24": 10, "10.1.0.0/30": 10,
	} {
		p := prefix(address)
		f.Add(p.Addr().AsSlice(), p.Bits(), n)
	}
	f.Add([]byte{}, 0, uint8(10))
	f.Add([]byte{10, 1, 0, 7}, -1, uint8(10))
	f.Add([]byte{10, 1, 0, 7}, 33, uint8(10))
	f.Add([]byte{15: 7}, 129, uint8(10))
	f.Fuzz(func(t *testing.T, ip []byte, length int, n uint8) {
		n %= 32
		addr, _ := netip.AddrFromSlice(ip)
		p := netip.PrefixFrom(addr, length)
		worker, err := FromIP(p, bits(n))
		if !p.IsValid() {
			requireNone(t, worker, err, "not valid")
			return
		}
		// The host part is the difference from the network's first address.
		width := addr.BitLen() - length
		host := new(big.Int).SetBytes(addr.AsSlice())
		host.Sub(host, new(big.Int).SetBytes(p.Masked().Addr().AsSlice()))
		switch {
		case width == 0:
			requireNone(t, worker, err, p.String(), "no host part")
		case width > int(n): // every host part of the network must fit
			most := new(big.Int).Lsh(big.NewInt(1), uint(width))
			requireNumber(t, most.Sub(most, big.NewInt(1)), n, worker, err, p.String(), fmt.Sprint(width, " bits"))
		case host.Sign() == 0 && width > 1:
			requireNone(t, worker, err, p.String(), "network")
		default:
			requireNumber(t, host, n, worker, err)
		}
	})
}

func TestFromPrivateIPTakesTheOnlyAddress(t *testing.T) {
	const up = net.FlagUp | net.FlagRunning | net.FlagBroadcast
	on := func(name string, flags net.Flags, addresses ...string) iface {
		i := iface{name: name, flags: flags}
		for _, a := range addresses {
			i.addresses = append(i.addresses, prefix(a))
		}
		return i
	}
	lo := on("lo", net.FlagUp|net.FlagLoopback, "127.0.0.1/8", "::1/128")
	for _, test := range []struct {
		name string
		on   []iface
		want int
		says []string // the error
	}{
		{"10", []iface{lo, on("eth0", up, "10.1.0.7/24")}, 7, nil},
		{"172.16", []iface{lo, on("eth0", up, "172.16.0.7/24")}, 7, nil},
		{"172.31", []iface{lo, on("eth0", up, "172.31.255.7/24")}, 7, nil},
		{"192.168", []iface{lo, on("eth0", up, "192.168.1.7/24")}, 7, nil},
		{"beside a public one", []iface{lo, on("eth0", up, "203.0.113.9/24", "10.1.0.7/24")}, 7, nil},
		{"beside IPv6", []iface{lo, on("eth0", up, "10.1.0.7/24", "fd00::9/120", "fe80::9/64")}, 7, nil},
		{"beside a link-local one", []iface{lo, on("eth0", up, "169.254.0.9/16"), on("eth1", up, "10.1.0.7/24")}, 7, nil},
		{"beside one that is down", []iface{lo, on("eth0", net.FlagBroadcast, "10.1.0.9/24"), on("eth1", up, "10.1.0.7/24")}, 7, nil},
		{"beside one on loopback", []iface{on("lo", net.FlagUp|net.FlagLoopback, "10.1.0.9/24"), on("eth1", up, "10.1.0.7/24")}, 7, nil},

		{"does not fit", []iface{lo, on("eth0", up, "172.17.0.7/16")}, 0, []string{"172.17.0.7/16", "16 bits", "0 to 1023"}},
		{"no host part", []iface{lo, on("eth0", up, "10.1.0.7/32")}, 0, []string{"10.1.0.7/32"}},
		{"several", []iface{lo, on("eth0", up, "10.1.0.7/24"), on("docker0", up, "172.17.0.1/16")},
			0, []string{"2 private IPv4 addresses", "10.1.0.7/24 (eth0)", "172.17.0.1/16 (docker0)"}},
		{"several on one", []iface{lo, on("eth0", up, "10.1.0.7/24", "10.1.0.8/24")}, 0,
			[]string{"10.1.0.7/24 (eth0)", "10.1.0.8/24 (eth0)"}},
		{"only other addresses", []iface{lo, on("eth0", up, "9.255.255.7/24", "11.0.0.7/24", "172.15.0.7/24", "172.32.0.7/24"),
			on("eth1", up, "192.167.0.7/24", "192.169.0.7/24", "100.64.0.7/24", "fd00::7/120")}, 0, []string{"eth0, eth1"}},
		{"no address", []iface{lo, on("eth0", up)}, 0, []string{"eth0"}},
		{"only loopback", []iface{lo, on("eth0", 0, "10.1.0.7/24")}, 0, []string{"no interface is up"}},
		{"no interface", nil, 0, []string{"no interface is up"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			worker, err := fromInterfaces(test.on, bits(10))
			assert.Equal(t, test.want, worker)
			if test.says == nil {
				assert.NoError(t, err)
				return
			}
			requireError(t, worker, err, test.says...)
			assert.True(t, errors.Is(err, ErrNoWorkerID) != errors.Is(err, snowflake.ErrWorkerRange))
		})
	}
}

// The interfaces are compared with the result of another function of package net.
func TestInterfacesOfThisHost(t *testing.T) {
	all, err := interfaces()
	require.NoError(t, err)
	got := map[string]bool{}
	for _, i := range all {
		for _, a := range i.addresses {
			got[a.String()] = true
			if a.Addr().IsLoopback() {
				assert.NotZero(t, i.flags&net.FlagLoopback, i)
			}
		}
	}
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			assert.True(t, got[n.String()], n)
		}
	}

	worker, err := FromPrivateIP(bits(22))
	want, wantErr := fromInterfaces(all, bits(22))
	assert.Equal(t, want, worker)
	assert.Equal(t, wantErr, err)
}
