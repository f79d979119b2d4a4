//go:build unix && go1.25

package etcdlease_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

func TestTroublesNeedNoRestart(t *testing.T) {
	t.Parallel()
	s := server(t, "--quota-backend-bytes", fmt.Sprint(8<<20))
	s.Window = window
	servertest.Troubles(t, s, servertest.NewHost(t, s.Addr), quotaIsFull(s.Addr))
	// If a cluster loses writes, its revisions repeat.
	t.Run("LostVersionsDoNotRepeat", func(t *testing.T) { servertest.LostVersionsDoNotRepeat(t, s) })
}

// quotaIsFull is the trouble of a cluster without space, until an operator frees space and disarms
// the alarm.
func quotaIsFull(addr string) servertest.Trouble {
	return servertest.Trouble{Name: "QuotaIsFull", Says: []string{rpctypes.ErrNoSpace.Error()},
		Begin: func(t *testing.T, _ string) func(*testing.T) {
			client := connect(t, addr)
			for i := 0; ; i++ {
				_, err := client.Put(t.Context(), fmt.Sprint("filler/", i), strings.Repeat("x", 1<<20))
				if errors.Is(err, rpctypes.ErrNoSpace) {
					break
				}
				require.NoError(t, err)
			}
			_, err := servertest.Client(t, addr, "full").Put(t.Context(), "key", "", nil)
			require.ErrorIs(t, err, rpctypes.ErrNoSpace)
			require.ErrorContains(t, err, "/full/key on "+addr)
			return func(t *testing.T) {
				deleted := servertest.Must(client.Delete(t.Context(), "filler/", clientv3.WithPrefix()))(t)
				servertest.Must(client.Compact(t.Context(), deleted.Header.Revision, clientv3.WithCompactPhysical()))(t)
				servertest.Must(client.Defragment(t.Context(), addr))(t)
				servertest.Must(client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}))(t)
			}
		}}
}
