//go:build go1.25

package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// heldBack is a Mark whose holder keeps the watermark back.
func heldBack(context.Context) (lease.Mark, error) {
	return lease.Mark{ID: 1000, HeldBy: &lease.Holder{Worker: 5, Owner: "web-1", Host: "node-3", PID: 77}, Why: "it has an open Hold"}, nil
}

// A watermark that stands still is returned, with its holder, in every protocol. An error of the
// store is an error.
func TestWatermarkInEveryProtocol(t *testing.T) {
	const secret = "host=db.internal"
	for name, watermark := range map[string]func(context.Context) (lease.Mark, error){
		"held": heldBack,
		"away": func(context.Context) (lease.Mark, error) { return lease.Mark{}, errors.New(secret) },
		"late": func(context.Context) (lease.Mark, error) { return lease.Mark{}, context.DeadlineExceeded },
		"none": nil,
	} {
		_, url := serve(t, generator(t), &server.Options{Watermark: watermark, Logger: slog.New(slog.DiscardHandler)})
		code := connect.CodeUnavailable
		if name == "none" {
			code = connect.CodeUnimplemented
		}
		for protocol, c := range protocols(t, url, nil) {
			got, err := c.Watermark(t.Context(), &pb.WatermarkRequest{})
			if name != "held" {
				require.Equal(t, code, connect.CodeOf(err), "%s, %s: %v", name, protocol, err)
				assert.NotContains(t, err.Error(), secret, "%s, %s: %v", name, protocol, err)
				continue
			}
			require.NoError(t, err, protocol)
			h := got.GetHeldBy()
			if got.Id != 1000 || h.GetWorker() != 5 || h.GetOwner() != "web-1" || h.GetHost() != "node-3" || h.GetPid() != 77 ||
				h.GetBehind().AsDuration() < time.Hour || h.GetWhy() != "it has an open Hold" {
				t.Errorf("%s: %v", protocol, got)
			}
		}
		_, metrics := get(t, http.DefaultClient, url+"/metrics")
		assert.Contains(t, metrics, `method="Watermark"`)
	}
}

// The store is asked at most once a second for all clients, and not for IDs.
func TestWatermarkIsReadOnceASecond(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		var calls int
		var failed error
		var log strings.Builder
		gen := generator(t)
		logger := slog.New(slog.NewTextHandler(&log, nil))
		s := newServer(t, gen, &server.Options{Logger: logger, Watermark: func(ctx context.Context) (lease.Mark, error) {
			calls++
			time.Sleep(100 * time.Millisecond)
			if failed != nil {
				return lease.Mark{}, failed
			}
			id, _ := gen.Layout().Encode(snowflake.Parts{Time: time.Now().Add(-2 * time.Second)})
			return lease.Mark{ID: id}, ctx.Err()
		}})
		ask := func(ctx context.Context, path string) *httptest.ResponseRecorder {
			return answer(s, httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
		}
		header := func() string { return ask(t.Context(), "/id").Header().Get("Snowflake-Watermark") }
		age := func() string {
			_, after, _ := strings.Cut(ask(t.Context(), "/metrics").Body.String(), "\nsnowflake_store_watermark_age_seconds ")
			line, _, _ := strings.Cut(after, "\n")
			return line
		}
		require.Empty(t, header())
		require.Empty(t, age())
		require.Zero(t, calls)
		gone, leave := context.WithCancel(t.Context())
		// The first client cancels during the request to the store.
		go func() { time.Sleep(50 * time.Millisecond); leave() }()
		var all sync.WaitGroup
		all.Go(func() { ask(gone, "/watermark") })
		synctest.Wait()
		texts := make([]string, 10)
		for i := range texts {
			all.Go(func() { texts[i] = ask(t.Context(), "/watermark").Body.String() })
		}
		all.Wait()
		id, err := snowflake.ParseID(header())
		require.NoError(t, err, "%d calls, header %v %v, age %q", calls, id, err, age())
		require.Equal(t, 1, calls, "%d calls, header %v %v, age %q", calls, id, err, age())
		assert.Equal(t, "2", age(), "%d calls, header %v %v, age %q", calls, id, err, age())
		for _, text := range texts {
			assert.Equal(t, `{"id":"`+id.String()+`"}`+"\n", text)
		}
		time.Sleep(time.Second)
		if ask(t.Context(), "/watermark"); calls != 2 || header() <= id.String() {
			t.Errorf("%d calls, header %s", calls, header())
		}
		// While the store is away, the watermark's age grows.
		was := header()
		failed = errors.New("away")
		for range 3 {
			time.Sleep(4 * time.Second)
			w := ask(t.Context(), "/watermark")
			assert.Equal(t, 503, w.Code)
		}
		if calls != 5 || header() != was || age() != "14.3" || strings.Count(log.String(), "cannot be read") != 1 {
			t.Errorf("%d calls, header %s, age %s, log %s", calls, header(), age(), &log)
		}
		failed = nil
		time.Sleep(time.Second)
		if ask(t.Context(), "/watermark"); age() != "2" || strings.Count(log.String(), "rises again") != 1 {
			t.Errorf("age %s, log %s", age(), &log)
		}
		// Without requests, header and metric do not show an old watermark.
		time.Sleep(61 * time.Second)
		require.Empty(t, header())
		require.Empty(t, age())
		assert.Equal(t, 6, calls)
	})
}
