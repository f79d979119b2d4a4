package workerid

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Module bench compares SonyflakeMachineID with sonyflake itself, on this host.
func TestSonyflakeMachineIDIsOfTheFirstPrivateAddress(t *testing.T) {
	for _, tt := range []struct {
		machine   int
		addresses []string
	}{
		{1<<8 | 7, []string{"10.0.1.7/8"}},
		{1<<8 | 7, []string{"127.0.0.1/8", "::1/128", "fd00::1/64", "8.8.8.8/24", "10.3.1.7/24", "192.168.2.9/24"}},
		{2<<8 | 9, []string{"192.168.2.9/24", "10.3.1.7/24"}},
		{255<<8 | 255, []string{"172.31.255.255/12"}},
		{5, []string{"169.254.0.5/16", "10.0.1.7/8"}},
		{0, []string{"10.0.0.0/32"}},
		{-1, []string{"172.32.0.1/16", "192.169.0.1/16", "11.0.0.1/8", "169.253.0.1/16", "fe80::1/64"}},
		{-1, nil},
	} {
		addresses := []net.Addr{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 99)}}
		for _, s := range tt.addresses {
			ip, network, err := net.ParseCIDR(s)
			require.NoError(t, err)
			addresses = append(addresses, &net.IPNet{IP: ip, Mask: network.Mask})
		}
		machine, err := sonyflakeMachineID(addresses)
		if tt.machine < 0 {
			assert.ErrorIs(t, err, ErrNoWorkerID, tt.addresses)
			continue
		}
		assert.NoError(t, err)
		assert.Equal(t, tt.machine, machine, tt.addresses)
	}
}
