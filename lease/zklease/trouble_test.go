//go:build unix && go1.25

package zklease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func TestTroublesNeedNoRestart(t *testing.T) {
	t.Parallel()
	s := server(t)
	s.Window, s.Open = 2*time.Second, opener(2*time.Second)
	host := servertest.NewHost(t, s.Addr)
	servertest.Troubles(t, s, host)
	t.Run("LostVersionsDoNotRepeat", func(t *testing.T) { servertest.LostVersionsDoNotRepeat(t, s) })
	t.Run("OneUnknownHostOfSeveral", func(t *testing.T) {
		for range 8 { // the order of the hosts is random
			servertest.Put(t, servertest.Client(t, "unknown.servertest.test:2181,"+host.Addr(), servertest.NewSpace()), "key", "", "value")
		}
	})
}

// A server ends the connection of a client that has seen later transactions. The error has this
// reason, not an earlier one.
func TestServerThatLostItsDataIsNamed(t *testing.T) {
	t.Parallel()
	server := server(t)
	s := open(t, connectFor(t, server.Addr, 20*time.Second), newRoot())
	e := servertest.Put(t, s, "key", "", "value")
	server.LoseDisk(server.Dir)
	for tries, named := 0, false; !named; {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		_, err := s.Put(ctx, "key", e.Version, nil)
		cancel()
		require.Error(t, err)
		if errors.Is(err, lease.ErrConflict) { // on a busy machine the new session came first
			tries++
			require.Less(t, tries, 5, "the new session comes before the cause is named")
			e = servertest.Put(t, s, "key", "", "value")
			server.LoseDisk(server.Dir)
			continue
		}
		named = strings.Contains(err.Error(), "has lost data that this client has seen")
	}
	servertest.Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if _, err := s.Put(ctx, "key", e.Version, nil); !errors.Is(err, lease.ErrConflict) {
			return fmt.Errorf("there is no new session: %w", err)
		}
		return nil
	})
}
