//go:build unix && go1.25

package natslease_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

func TestTroublesNeedNoRestart(t *testing.T) {
	t.Parallel()
	s := server(t, "jetstream: {store_dir: STORE, max_file: 8M}")
	s.Window = 3 * window
	admin := func(t *testing.T) jetstream.JetStream { return jetStream(t, s.Addr) }
	servertest.Troubles(t, s, servertest.NewHost(t, s.Addr), spaceIsFull(admin), settingIsChanged(admin))
}

// spaceIsFull is the trouble of a server whose streams have used up its space.
func spaceIsFull(admin func(*testing.T) jetstream.JetStream) servertest.Trouble {
	return servertest.Trouble{Name: "SpaceIsFull", Says: []string{"insufficient", "resource"},
		Begin: func(t *testing.T, _ string) func(*testing.T) {
			js := admin(t)
			servertest.Must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "filler", Subjects: []string{"filler"}}))(t)
			for size := 1 << 19; size > 0; size /= 2 {
				for err := error(nil); err == nil; {
					_, err = js.Publish(t.Context(), "filler", make([]byte, size))
				}
			}
			return func(t *testing.T) { servertest.Do(t, js.DeleteStream(t.Context(), "filler")) }
		}}
}

// settingIsChanged is the trouble of a bucket with a setting that makes it lose entries. Renewals
// fail until the setting is restored.
func settingIsChanged(admin func(*testing.T) jetstream.JetStream) servertest.Trouble {
	return servertest.Trouble{Name: "SettingIsChanged", Says: []string{"max_msgs is 100000, not -1"},
		Begin: func(t *testing.T, space string) func(*testing.T) {
			js := admin(t)
			var config jetstream.StreamConfig
			// The previous trouble may have removed the stream.
			servertest.Await(t, func() error {
				stream, err := js.Stream(t.Context(), "KV_"+space)
				if err == nil {
					config = stream.CachedInfo().Config
				}
				return err
			})
			change := func(t *testing.T, most int64) {
				config.MaxMsgs = most
				servertest.Must(js.UpdateStream(t.Context(), config))(t)
			}
			change(t, 100_000)
			return func(t *testing.T) { change(t, -1) }
		}}
}
