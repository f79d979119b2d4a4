//go:build unix && go1.25

package natslease_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
)

func TestTroublesThatPassNeedNoRestart(t *testing.T) {
	t.Parallel()
	files := servertest.NewAuthority(t, "")
	m := start(t, 1, "jetstream: {store_dir: STORE, max_file: 8M}",
		fmt.Sprintf("tls: {cert_file: %q, key_file: %q, ca_file: %q, verify: true}",
			files.File("server.pem"), files.File("server.key"), files.File("server-ca.pem"))).Cluster[0]
	host := servertest.NewHost(t, m.Addr)
	s := at(m.Addr)
	s.Window = 3 * window
	certificates := []nats.Option{nats.RootCAs(files.File("client-ca.pem")),
		nats.ClientCert(files.File("client.pem"), files.File("client.key"))}
	s.Open = func(addr, space string) (lease.Store, func() error, error) {
		conn, err := natslease.Connect(addr, certificates...)
		if err != nil {
			return nil, nil, err
		}
		s, err := natslease.New(conn, &natslease.Options{Bucket: space})
		return s, func() error { conn.Close(); return nil }, err
	}
	admin := func(t *testing.T) jetstream.JetStream {
		return servertest.Must(jetstream.New(connect(t, m.Addr, certificates...)))(t)
	}
	servertest.Troubles(t, &s, host.Addr(), append(servertest.Moves(host),
		servertest.HalfOpen(host),
		servertest.NameIsUnknown(host),
		spaceIsFull(admin),
		settingIsChanged(admin),
		servertest.CertificatesAreRenewed(files, m.Process),
		servertest.LosesDisk(m.Process, m.Dir),
		servertest.IsRestored(&s, m.Process, m.Dir),
	)...)
}

// spaceIsFull is the trouble of a server whose streams have all the space that it may use.
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

// settingIsChanged is the trouble of a bucket that somebody lets forget entries. Nobody renews in
// it until the setting is set back.
func settingIsChanged(admin func(*testing.T) jetstream.JetStream) servertest.Trouble {
	return servertest.Trouble{Name: "SettingIsChanged", Says: []string{"max_msgs is 100000, not -1"},
		Begin: func(t *testing.T, space string) func(*testing.T) {
			js := admin(t)
			var config jetstream.StreamConfig
			// There may have been no stream during the trouble before this one.
			servertest.Await(t, func() error {
				stream, err := js.Stream(t.Context(), "KV_"+space)
				if err == nil {
					config = stream.CachedInfo().Config
				}
				return err
			})
			change := func(t *testing.T, most int64) {
				config.MaxMsgs = most
				_, err := js.UpdateStream(t.Context(), config)
				require.NoError(t, err)
			}
			change(t, 100_000)
			return func(t *testing.T) { change(t, -1) }
		}}
}
