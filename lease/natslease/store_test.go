//go:build unix && go1.25

package natslease_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
)

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	conn := connect(t, "127.0.0.1:1")
	for text, o := range map[string]*natslease.Options{
		`"a b"`:       {Bucket: "a b"},
		`"a.b"`:       {Bucket: "a.b"},
		"-1 replicas": {Replicas: -1},
		"6 replicas":  {Replicas: 6},
	} {
		s, err := natslease.New(conn, o)
		require.ErrorIs(t, err, lease.ErrInvalidOptions, "%+v: %v, %v", o, s, err)
		require.Nil(t, s, "%+v: %v, %v", o, s, err)
		assert.Contains(t, err.Error(), text, "%+v: %v, %v", o, s, err)
	}
	s, err := natslease.New(nil, nil)
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	assert.Nil(t, s)
}

// A bucket that loses entries, or whose revisions may repeat, is refused.
func TestOtherBucketsAreRefused(t *testing.T) {
	t.Parallel()
	addr := shared(t)
	js := jetStream(t, addr)
	space := servertest.NewSpace()
	servertest.Put(t, servertest.Client(t, addr, space), "key", "", "value")
	good := stream(t, addr, space).CachedInfo().Config
	for name, test := range map[string]struct {
		spoil func(*jetstream.StreamConfig)
		is    error
		says  string
	}{
		"nothing":       {func(*jetstream.StreamConfig) {}, nil, ""},
		"its revisions": {func(c *jetstream.StreamConfig) { c.FirstSeq = 0 }, lease.ErrInvalidOptions, "IDs may repeat"},
		"memory": {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
			lease.ErrInvalidOptions, "IDs may repeat"},
		"an age":        {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, lease.ErrAway, "max_age is 1h0m0s, not 0s"},
		"a size":        {func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, lease.ErrAway, "max_bytes is 1048576, not -1"},
		"a number":      {func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 }, lease.ErrAway, "max_msgs is 100, not -1"},
		"two revisions": {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }, lease.ErrAway, "max_msgs_per_subject is 2, not 1"},
		"no direct get": {func(c *jetstream.StreamConfig) { c.AllowDirect = false }, lease.ErrAway, "allow_direct is false, not true"},
		"no markers":    {func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, lease.ErrAway, "allow_msg_ttl is false, not true"},
	} {
		other := servertest.NewSpace()
		c := good
		c.Name, c.Subjects = "KV_"+other, []string{"$KV." + other + ".>"}
		test.spoil(&c)
		_, err := js.CreateStream(t.Context(), c)
		require.NoError(t, err, name)
		_, err = servertest.Client(t, addr, other).Get(t.Context(), "key")
		assert.ErrorIs(t, err, test.is, "a bucket with %s", name)
		if test.is != nil {
			assert.ErrorContains(t, err, test.says, "a bucket with %s", name)
		}
	}
	other := servertest.NewSpace()
	servertest.Must(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: other}))(t)
	_, err := servertest.Client(t, addr, other).Put(t.Context(), "key", "", nil)
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	assert.Contains(t, err.Error(), other)
}

// While a bucket is being created, a server of a cluster may not know it yet, or not enough servers
// for it. Here half of the requests reach such a server.
func TestNewBucketIsAwaited(t *testing.T) {
	t.Parallel()
	addr, space := start(t, 1, `mappings: {
		"$JS.API.STREAM.INFO.*": [{destination: "lagging.info", weight: "50%"}],
		"$JS.API.STREAM.CREATE.*": [{destination: "lagging.create", weight: "50%"}]}`).Addrs(), servertest.NewSpace()
	var given atomic.Int64
	conn := connect(t, addr)
	servertest.Must(conn.Subscribe("lagging.*", func(m *nats.Msg) {
		given.Add(1)
		answer := `{"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}`
		if m.Subject == "lagging.create" {
			answer = `{"error": {"code": 400, "err_code": 10005, "description": "no suitable peers for placement, peer offline"}}`
		}
		_ = m.Respond([]byte(answer))
	}))(t)
	servertest.Do(t, conn.Flush())
	for i := range 30 {
		s := servertest.Client(t, addr, space)
		servertest.Await(t, func() error {
			_, err := s.Get(t.Context(), "key")
			// A busy machine may need longer than the store retries.
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("store %d: %v", i, err)
			}
			return err
		})
	}
	require.GreaterOrEqual(t, given.Load(), int64(20))
}

// Each request has a fifth of the call's time, even if the call sends several.
func TestSlowServerIsAwaited(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, shared(t))
	conn := connect(t, proxy.Addr())
	servertest.Do(t, conn.Flush())
	// A round trip takes 0.12 s of 1 s, or 0.6 s of 5 s.
	proxy.Delay(depth.Of[time.Duration](60, 300) * time.Millisecond)
	s := opened(t, conn, servertest.NewSpace())
	// The first call creates the bucket. A busy machine may need a second call.
	servertest.Await(t, func() error {
		_, err := s.Get(t.Context(), "key")
		return err
	})
}

// After an operator has deleted a key with NATS's own tools, it can be created again. The server
// removes the markers of Delete.
func TestDeletedKeysHaveNoEntries(t *testing.T) {
	t.Parallel()
	addr, space := shared(t), servertest.NewSpace()
	s := servertest.Client(t, addr, space)
	first := servertest.Put(t, s, "folder/a.b", "", "value")
	kv := servertest.Must(jetStream(t, addr).KeyValue(t.Context(), space))(t)
	for name, remove := range map[string]func() error{
		"kv del":   func() error { return kv.Delete(t.Context(), "folder.a_b") },
		"kv purge": func() error { return kv.Purge(t.Context(), "folder.a_b") },
		"Delete":   func() error { return s.Delete(t.Context(), "folder/a.b", first.Version) },
	} {
		require.NoError(t, remove(), name)
		e, err := s.Get(t.Context(), "folder/a.b")
		require.NoError(t, err, "%s: Get returns %v, %v", name, e, err)
		assert.Empty(t, e.Version, "%s: Get returns %v, %v", name, e, err)
		all, err := s.List(t.Context(), "")
		require.NoError(t, err, "%s: List returns %v, %v", name, all, err)
		assert.Empty(t, all, "%s: List returns %v, %v", name, all, err)
		if name == "Delete" {
			m, err := stream(t, addr, space).GetLastMsgForSubject(t.Context(), "$KV."+space+".folder.a_b")
			require.NoError(t, err, "the marker: %v, %v", m, err)
			assert.Equal(t, "1h0m0s", m.Header.Get(jetstream.MsgTTLHeader), "the marker: %v, %v", m, err)
		}
		first = servertest.Put(t, s, "folder/a.b", "", "value")
	}
}

// A version is a revision as the server writes it. "0" is not the version of a missing entry.
func TestVersionsAreTakenLiterally(t *testing.T) {
	t.Parallel()
	s := servertest.Client(t, shared(t), servertest.NewSpace())
	e := servertest.Put(t, s, "there", "", "value")
	for key, versions := range map[string][]string{"there": {"0" + e.Version, "+" + e.Version}, "none": {"0", "00", "-1"}} {
		for _, version := range versions {
			_, err := s.Put(t.Context(), key, version, nil)
			assert.ErrorIs(t, err, lease.ErrConflict, "Put with version %q of %s: %v", version, key, err)
			if err := s.Delete(t.Context(), key, version); !errors.Is(err, lease.ErrConflict) {
				t.Errorf("Delete with version %q of %s: %v", version, key, err)
			}
		}
	}
}

// The server continues its revisions, even after all entries were deleted.
func TestVersionsDoNotRepeatAfterAPurgeAndARestart(t *testing.T) {
	t.Parallel()
	m, space := start(t, 1).Cluster[0], servertest.NewSpace()
	s := servertest.Client(t, m.Addr, space)
	seen := map[string]bool{}
	for range 3 {
		for range 3 {
			e := servertest.Put(t, s, fmt.Sprint("key/", len(seen)), "", "value")
			require.False(t, seen[e.Version], "the version %s repeats", e.Version)
			seen[e.Version] = true
		}
		servertest.Do(t, stream(t, m.Addr, space).Purge(t.Context()))
		m.Kill()
		m.Restart()
	}
}

// The rights in the documentation are sufficient.
func TestDocumentedRightsAreSufficient(t *testing.T) {
	t.Parallel()
	addr := start(t, 1, `authorization: {users: [
		{user: least, password: secret, permissions: {subscribe: "_INBOX.>", publish: ["$KV.snowflake.>",
			"$JS.API.STREAM.INFO.KV_snowflake", "$JS.API.STREAM.CREATE.KV_snowflake", "$JS.API.DIRECT.GET.KV_snowflake"]}},
		{user: reader, password: secret, permissions: {subscribe: "_INBOX.>", publish: ["$JS.API.>"]}}]}`).Addrs()
	s := opened(t, connect(t, addr, nats.UserInfo("least", "secret")), "")
	e := servertest.Put(t, s, "folder/key", "", "value")
	all := servertest.Must(s.List(t.Context(), "folder/"))(t)
	require.Len(t, all, 1)
	assert.Equal(t, e.Version, all[0].Version)
	assert.NoError(t, s.Delete(t.Context(), "folder/key", e.Version))
	for _, test := range []struct {
		user, password string
		says           error
	}{{"reader", "secret", nats.ErrPermissionViolation}, {"least", "wrong", nats.ErrAuthorization}} {
		refused := opened(t, connect(t, addr, nats.UserInfo(test.user, test.password)), "")
		// On a busy machine the refusal may take longer than a window.
		servertest.Await(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), window)
			defer cancel()
			if _, err := refused.Get(ctx, "folder/key"); !errors.Is(err, test.says) {
				return fmt.Errorf("%s with the password %s: %w", test.user, test.password, err)
			}
			return nil
		})
	}
}

// A client that had no server for a long time, or was refused, recovers.
func TestClientNeverGivesUp(t *testing.T) {
	conn := connect(t, "127.0.0.1:1")
	assert.Less(t, conn.Opts.MaxReconnect, 0)
	assert.True(t, conn.Opts.IgnoreAuthErrorAbort)
}
