package workerid

import (
	"math"
	"math/big"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

var prefix = netip.MustParsePrefix

func TestFromIP(t *testing.T) {
	for _, test := range []struct {
		address string
		bits    uint8
		want    outcome
	}{
		{"10.1.0.7/24", 8, found(7)},
		{"10.1.0.7/24", 10, found(7)},
		{"10.1.1.7/22", 10, found(1<<8 + 7)},
		{"192.168.255.254/16", 16, found(255<<8 + 254)},
		{"10.255.255.254/8", 22, tooWide("10.255.255.254/8", "24 bits", "16777215", "4194303")},
		{"10.1.0.6/31", 1, found(0)},
		{"10.1.0.7/31", 1, found(1)},
		{"203.0.113.9/28", 10, found(9)},
		{"fd00::1:2/112", 16, found(2)},
		{"fd00::1:2/108", 20, found(1<<16 + 2)},
		{"::ffff:10.1.0.7/120", 8, found(7)},

		// 7 would fit, but 10.1.1.7, say, would have to be cut to it.
		{"10.1.0.7/16", 10, tooWide("10.1.0.7/16", "16 bits", "65535", "0 to 1023")},
		{"10.1.0.7/24", 7, tooWide("10.1.0.7/24", "8 bits", "255", "0 to 127")},
		{"10.1.0.7/0", 22, tooWide("10.1.0.7/0", "32 bits")},
		{"fd00::7/64", 22, tooWide("fd00::7/64", "64 bits")},
		{"fd00::7/0", 22, tooWide("fd00::7/0", "128 bits")},

		{"10.1.0.7/32", 10, none("10.1.0.7/32", "no host part")},
		{"fd00::7/128", 10, none("fd00::7/128", "no host part")},
		{"10.1.0.0/24", 10, none("10.1.0.0/24", "network")},
		{"10.1.0.0/30", 10, none("10.1.0.0/30", "network")},
	} {
		t.Run(test.address, func(t *testing.T) {
			worker, err := FromIP(prefix(test.address), bits(test.bits))
			test.want.check(t, worker, err)
		})
	}

	for name, p := range map[string]netip.Prefix{
		"no address":    {},
		"no prefix":     netip.PrefixFrom(netip.MustParseAddr("10.1.0.7"), -1),
		"prefix of 33":  netip.PrefixFrom(netip.MustParseAddr("10.1.0.7"), 33),
		"prefix of 129": netip.PrefixFrom(netip.MustParseAddr("fd00::7"), 129),
	} {
		t.Run(name, func(t *testing.T) {
			worker, err := FromIP(p, bits(10))
			none("not valid").check(t, worker, err)
		})
	}
}

// On a 32-bit system the largest int would fit this layout.
func TestHostPartTooLargeForAnInt(t *testing.T) {
	l := snowflake.Layout{Unit: 1, TimeBits: 32, WorkerBits: 31}
	_, err := FromIP(prefix("fd00::7/1"), l)
	var e *snowflake.FieldRangeError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, snowflake.FieldRangeError{Field: "worker", Value: math.MaxInt, Max: math.MaxInt32}, *e)
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
		want outcome
	}{
		{"10", []iface{lo, on("eth0", up, "10.1.0.7/24")}, found(7)},
		{"172.16", []iface{lo, on("eth0", up, "172.16.0.7/24")}, found(7)},
		{"172.31", []iface{lo, on("eth0", up, "172.31.255.7/24")}, found(7)},
		{"192.168", []iface{lo, on("eth0", up, "192.168.1.7/24")}, found(7)},
		{"beside a public one", []iface{lo, on("eth0", up, "203.0.113.9/24", "10.1.0.7/24")}, found(7)},
		{"beside IPv6", []iface{lo, on("eth0", up, "10.1.0.7/24", "fd00::9/120", "fe80::9/64")}, found(7)},
		{"beside a link-local one", []iface{lo, on("eth0", up, "169.254.0.9/16"), on("eth1", up, "10.1.0.7/24")}, found(7)},
		{"beside one that is down", []iface{lo, on("eth0", net.FlagBroadcast, "10.1.0.9/24"), on("eth1", up, "10.1.0.7/24")}, found(7)},
		{"beside one on loopback", []iface{on("lo", net.FlagUp|net.FlagLoopback, "10.1.0.9/24"), on("eth1", up, "10.1.0.7/24")}, found(7)},

		{"does not fit", []iface{lo, on("eth0", up, "172.17.0.7/16")}, tooWide("172.17.0.7/16", "16 bits", "0 to 1023")},
		{"no host part", []iface{lo, on("eth0", up, "10.1.0.7/32")}, none("10.1.0.7/32")},
		{"several", []iface{lo, on("eth0", up, "10.1.0.7/24"), on("docker0", up, "172.17.0.1/16")},
			none("2 private IPv4 addresses", "10.1.0.7/24 (eth0)", "172.17.0.1/16 (docker0)")},
		{"several on one", []iface{lo, on("eth0", up, "10.1.0.7/24", "10.1.0.8/24")}, none("10.1.0.7/24 (eth0)", "10.1.0.8/24 (eth0)")},
		{"only other addresses", []iface{lo, on("eth0", up, "9.255.255.7/24", "11.0.0.7/24", "172.15.0.7/24", "172.32.0.7/24"),
			on("eth1", up, "192.167.0.7/24", "192.169.0.7/24", "100.64.0.7/24", "fd00::7/120")}, none("eth0, eth1")},
		{"no address", []iface{lo, on("eth0", up)}, none("eth0")},
		{"only loopback", []iface{lo, on("eth0", 0, "10.1.0.7/24")}, none("no interface is up")},
		{"no interface", nil, none("no interface is up")},
	} {
		t.Run(test.name, func(t *testing.T) {
			worker, err := fromInterfaces(test.on, bits(10))
			test.want.check(t, worker, err)
		})
	}
}

// The system's resolver of interfaces, held against another of its functions.
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

func FuzzFromIP(f *testing.F) {
	f.Add([]byte{10, 1, 0, 7}, int8(24), uint8(10))
	f.Add([]byte{10, 1, 0, 7}, int8(32), uint8(10))
	f.Add([]byte{10, 1, 0, 0}, int8(16), uint8(22))
	f.Add([]byte{10, 1, 0, 0}, int8(-1), uint8(22))
	f.Add([]byte{15: 7}, int8(112), uint8(16))
	f.Fuzz(func(t *testing.T, ip []byte, length int8, n uint8) {
		n %= 23
		addr, _ := netip.AddrFromSlice(ip)
		p := netip.PrefixFrom(addr, int(length))
		worker, err := FromIP(p, bits(n))

		// The host part is what the network's first address leaves.
		host := new(big.Int).SetBytes(addr.AsSlice())
		host.Sub(host, new(big.Int).SetBytes(p.Masked().Addr().AsSlice()))
		width := 8*len(ip) - int(length)
		switch {
		case !p.IsValid() || width == 0:
			require.ErrorIs(t, err, ErrNoWorkerID)
		case width > int(n):
			require.ErrorIs(t, err, snowflake.ErrWorkerRange)
		case host.Sign() == 0 && width > 1:
			require.ErrorIs(t, err, ErrNoWorkerID)
		default:
			require.NoError(t, err)
			require.Equal(t, host.Int64(), int64(worker))
			return
		}
		require.Zero(t, worker)
	})
}
