//go:build go1.25

package stores

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// isStore opens the store that a URL names twice, and acquires a worker ID with each. Then it opens
// the store once more and finds both.
func isStore(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var workers []int
	for i := range 2 {
		store, closeStore, err := Open(ctx, url)
		require.NoError(t, err)
		l, err := lease.Acquire(ctx, store, &lease.Options{Owner: fmt.Sprint("test-", i), Window: time.Minute, Count: 2, NewStore: true})
		require.NoError(t, err)
		defer func() {
			require.NoError(t, l.Release(ctx))
			require.NoError(t, closeStore())
		}()
		workers = append(workers, l.Worker())
	}
	require.ElementsMatch(t, []int{0, 1}, workers)
}

func TestFileIsStore(t *testing.T) {
	dir := t.TempDir()
	isStore(t, "file:"+dir+"/a%20b")
	_, err := os.Stat(filepath.Join(dir, "a b", "worker", "0"))
	require.NoError(t, err)
	isStore(t, "file://"+dir+"/c")
	isStore(t, dir+"/d%20?e=f")
	_, err = os.Stat(filepath.Join(dir, "d%20?e=f", "worker", "0"))
	require.NoError(t, err)
}

func TestSQLiteIsStore(t *testing.T) {
	dir := t.TempDir()
	isStore(t, "sqlite:"+dir+"/a%20%3fb%25.db?table=orders")
	_, err := os.Stat(filepath.Join(dir, "a ?b%.db"))
	require.NoError(t, err)
}

func TestRedisIsStore(t *testing.T) {
	addr, _ := servertest.Redis(t, "--requirepass", "p@s/?s")
	client := redis.NewClient(&redis.Options{Addr: addr, Password: "p@s/?s", DB: 3})
	defer client.Close()
	isStore(t, "redis://:p%40s%2F%3Fs@"+addr+"/3?prefix=orders:")
	require.EqualValues(t, 1, client.Exists(t.Context(), "orders:leases").Val())

	store, closeStore, err := Open(t.Context(), "redis://:wrong-secret@"+addr)
	require.NoError(t, err)
	defer closeStore()
	_, err = store.Get(t.Context(), "a")
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "wrong-secret")
}

func TestOpenRefusesURLsThatNameNoStore(t *testing.T) {
	for url, reason := range map[string]string{
		"":                         "scheme is unknown",
		"workers":                  "scheme is unknown",
		"mongodb://h":              "scheme is unknown",
		"host=h password=hunter2":  "scheme is unknown",
		"app:hunter2@tcp(h:3306)/": "scheme is unknown",

		"file:":                            "no directory",
		"file:x?table=y":                   `no option "table"`,
		"file://host/x":                    "leave // out",
		"file:%zz":                         "not an escape",
		"file:a%00b":                       "zero byte",
		"file:~/x":                         "write the whole path",
		"sqlite:~/x.db":                    "write the whole path",
		"sqlite:":                          "no file",
		"sqlite::memory:":                  "no file",
		"sqlite:x?mode=ro":                 `no option "mode"`,
		"kubernetes:x?a=b":                 `no option "a"`,
		"kubernetes://x":                   "leave // out",
		"redis:h":                          "no host",
		"redis://":                         "no host",
		"redis:///0":                       "no host",
		"redis://h/x":                      "database number",
		"redis://h?x=y":                    "unexpected option: x",
		"redis://h?replicas=":              "", // the default
		"redis://h?replicas=x":             "not a number",
		"redis://h,h":                      "several hosts",
		"redis://h:65536":                  "over 65535",
		"etcd://h,[::1]:99999":             "over 65535",
		"redis://h#x":                      "%23",
		"redis://h?a=%zz":                  "options cannot be read",
		"redis://h?prefix=a&prefix=b":      `the option "prefix" is there 2 times`,
		"mysql://h/a?table=x&t%61ble=y":    `the option "table" is there 2 times`,
		"redis://h/3?db=4":                 "database number in its path and in the option db",
		"redis://u@h":                      "a user and no password",
		"zk://:hunter2@h":                  "a password and no user",
		"etcd://:hunter2@h":                "only one of user and password",
		"etcds://u@h":                      "only one of user and password",
		"nats://hunter2@h":                 "only one of user and password",
		"nats://h/x":                       "?bucket=",
		"nats://h?ca=x":                    `no option "ca"`,
		"nats://h?replicas=x":              "not a number",
		"kubernetes://u:hunter2@h":         "leave // out",
		"file://u:hunter2@h/x":             "leave // out",
		"sqlite://u:hunter2/x@h/x":         "leave // out",
		"mysql://h,h/app":                  "several hosts",
		"mysql://h/app?timeout=x":          `invalid duration "xxxxx"`,
		"redis://h?hunter2":                "an option without =",
		"redis://h?dial_timeout=hunter2":   "dial_timeout",
		"postgres://h/app?sslmode=hunter2": "sslmode",
		"postgres://h/app?connect_timeout=hunter2": "connect_timeout",
		"mysql://h/app?timeout=hunter2":            "invalid duration",
		"nats://h?replicas=hunter2":                "not a number",
		"s3://b?secret_access_key=hunter2":         `no option "secret_access_key"`,
		"//h/x":                                    "scheme is unknown",
		"mysql://u:hunter2@h/app?password=x":       "before the host",
		"postgres://h/app?p%61ssword=hunter2":      "before the host",
		"postgres://u:hunter2@h/app?sslmode=x":     "sslmode",
		"postgres://u:hunter2@h:port/app":          "port is not a number",
		"postgres://u:hunter2/app":                 "port is not a number",
		"postgres://u:hun/ter2@h/app":              "%2F",
		"postgres://u:1/hunter2@h/app":             "%40",
		"postgres://u:1?hunter2@h/app":             "%40",
		"postgres://u:hunter2%zz@h/app":            "not an escape",
		"etcd://h/x":                               "?prefix=",
		"etcd://h?ca=x":                            `no option "ca"`,
		"zk://127.0.0.1?session=6":                 "session",
		"zk://127.0.0.1?timeout=6s":                `no option "timeout"`,
		"s3:bucket":                                "no host",
		"s3://a,b":                                 "several hosts",
		"s3://bucket:9000":                         "write ?endpoint=",
		"s3://key:hunter2@bucket":                  "AWS_SECRET_ACCESS_KEY",
		"s3://bucket?path_style=x":                 "path_style is not true or false",
		"s3://bucket?profile=x":                    `no option "profile"`,
		"dynamodb://table?path_style=true":         `no option "path_style"`,
	} {
		store, _, err := Open(t.Context(), url)
		if reason == "" {
			require.NoError(t, err, url)
			continue
		}
		var bad *URLError
		require.ErrorAs(t, err, &bad, "%s: %v", url, err)
		require.Nil(t, store, url)
		require.ErrorIs(t, err, lease.ErrInvalidOptions, url)
		require.Contains(t, bad.Reason, reason, url)
		for name := range schemes {
			if name != "postgresql" && name != "mariadb" {
				require.Contains(t, err.Error(), name+":", url)
			}
		}
		require.NotContains(t, err.Error(), "hunter2", url)
	}
}

func TestOpenReturnsErrorsOfTheStore(t *testing.T) {
	for _, url := range []string{
		"sqlite:x?table=a-b", "mysql://h/app?table=a-b", "postgres://u:hunter2@h?table=a-b",
		"redis://h?replicas=-1", "nats://u:hunter2@h?replicas=6", "nats://h?bucket=a.b",
	} {
		_, _, err := Open(t.Context(), url)
		require.ErrorIs(t, err, lease.ErrInvalidOptions, url)
		require.NotContains(t, err.Error(), "hunter2")
		require.ErrorContains(t, err, Redact(url))
	}
	for _, url := range []string{"etcds://h?ca=", "natss://h?ca=", "nats://h?creds="} {
		_, _, err := Open(t.Context(), url+filepath.Join(t.TempDir(), "none"))
		require.ErrorIs(t, err, os.ErrNotExist, url)
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := Open(ctx, "file:x")
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, scheme := range []string{"zk", "etcd"} { // these log in
		url := fmt.Sprintf("%s://u:hunter2@127.0.0.1:%d", scheme, servertest.Port(t))
		_, _, err = Open(ctx, url)
		require.ErrorIs(t, err, context.DeadlineExceeded, scheme)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// The zone of an IPv6 address is one of the host's network interfaces.
func TestHostsMayHaveAZone(t *testing.T) {
	t.Parallel()
	port := servertest.Port(t)
	for _, scheme := range []string{"redis", "postgres", "mysql", "etcd", "zk", "nats"} {
		s := servertest.Must(parse(fmt.Sprintf("%s://[fe80::1%%25lo]:%d/x", scheme, port)))(t)
		require.Equal(t, []string{fmt.Sprintf("[fe80::1%%lo]:%d", port)}, s.hosts)
	}
	for _, scheme := range []string{"redis", "postgres", "mysql"} {
		store, closeStore, err := Open(t.Context(), fmt.Sprintf("%s://[fe80::1%%25nosuchzone]:%d", scheme, port))
		require.NoError(t, err)
		defer closeStore()
		servertest.Await(t, func() error { // the client of Redis tries again for seconds
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := store.Get(ctx, "a"); err == nil || !strings.Contains(err.Error(), "[fe80::1%nosuchzone]:") {
				return fmt.Errorf("%s: %w", scheme, err)
			}
			return nil
		})
	}
}

func TestRedactHidesPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"":                                      "",
		"leases/dir":                            "leases/dir",
		"file:/a@b:c@d":                         "file:/a@b:c@d",
		"file:///a@b:c@d":                       "file:///a@b:c@d",
		"/srv/a:b@c?d=e":                        "/srv/a:b@c?d=e",
		"redis://h:6379/1?prefix=a":             "redis://h:6379/1?prefix=xxxxx",
		"redis://:secret@h:1/1":                 "redis://:xxxxx@h:1/1",
		"redis://secret@h:1":                    "redis://xxxxx@h:1",
		"rediss://secret@h/1":                   "rediss://xxxxx@h/1",
		"nats://token@h":                        "nats://xxxxx@h",
		"postgres://u@h:1":                      "postgres://u@h:1",
		"postgres://u:secret@h/x?sslmode=a":     "postgres://u:xxxxx@h/x?sslmode=xxxxx",
		"redis://[::1]:1/1":                     "redis://[::1]:1/1",
		"etcd://u:secret@a:1,b:2":               "etcd://u:xxxxx@a:1,b:2",
		"etcd://a:1,b:2":                        "etcd://a:1,b:2",
		"s3://b?endpoint=http://h:1&region=r":   "s3://b?endpoint=xxxxx&region=xxxxx",
		"kubernetes://u:secret@h":               "kubernetes:xxxxx",
		"redis://h?a=b&secret":                  "redis:xxxxx",
		"postgres://db:1/a?user=a&password=s@t": "postgres:xxxxx",
		"postgres://u:1?secret@h/app":           "postgres:xxxxx",
		"mysql://u:sec@r/e?t@h/x":               "mysql:xxxxx",
		"postgres://u:secret":                   "postgres:xxxxx",
		"other://u:secret@h":                    "other://xxxxx",
		"u:secret@tcp(h:1)/x":                   "xxxxx",
		"host=h password = 'se cret' user=u":    "xxxxx",
	} {
		require.Equal(t, want, Redact(url), url)
	}
}

// hides fails the test if a URL, however wrong, shows its password or the value of an option: as
// Redact has it, or in an error. The URL is made of parts that scheme, place and form choose, with
// a canary as the password or as a value, between two texts.
func hides(t *testing.T, scheme, place, form byte, before, after string) {
	const canary = "hunter2"
	t.Helper()
	if strings.Contains(before+after, canary) {
		return
	}
	names := slices.Sorted(maps.Keys(schemes))
	name := append(names, "mongodb", "http")[int(scheme)%(len(names)+2)]
	option := []string{"password", "secret_access_key", "table", "sslmode", "prefix", "timeout",
		"dial_timeout", "replicas", "session", "region", "x"}[int(place)%11]
	password := before + canary + strings.NewReplacer("@", "", "?", "", "&", "").Replace(after)
	var raw string
	switch form % 6 {
	case 0:
		raw = name + "://u:" + url.QueryEscape(password) + "@h:1/app"
	case 1: // nothing is escaped
		raw = name + "://u:" + strings.NewReplacer("?", "", "://", "").Replace(password) + "@h/app"
	case 2:
		raw = name + "://h:1/app?user=app&" + option + "=" + url.QueryEscape(password)
	case 3:
		raw = name + "://h:1/app?" + option + "=" + strings.NewReplacer("&", "", "#", "").Replace(password) + "&x=y@z"
	case 4: // the host is forgotten; after an @ anything could be the host
		raw = name + "://u:" + strings.NewReplacer("@", "", "?", "", "/", "", ",", "", "://", "").Replace(password)
	case 5:
		raw = "u:" + strings.NewReplacer("?", "", "://", "").Replace(password) + "@tcp(h:1)/app?" + option + "=" + canary
	}
	if shown := Redact(raw); strings.Contains(shown, canary) {
		t.Errorf("%q is shown as %q", raw, shown)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // some log in
	defer cancel()
	_, closeStore, err := Open(ctx, raw)
	if err == nil {
		_ = closeStore()
	} else if strings.Contains(err.Error(), canary) {
		t.Errorf("%q: %v", raw, err)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(byte(0), byte(0), byte(0), "p@s:s/?#&=%", "db:5432/app?user=app&password=p@ss")
	f.Fuzz(hides)
}

func TestGeneratedURLsShowNoSecrets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"@", ":", "/", "?", "#", "&", "=", "%", "%40", "%zz", ",", "'", " ", "\\", "[::1]",
		"db:5432", "a", "1", "password=", "://", "tcp(h)", "é", "\x00"}
	text := func() (text string) {
		for range random.IntN(6) {
			text += parts[random.IntN(len(parts))]
		}
		return text
	}
	for range depth.Of(5_000, 50_000) {
		hides(t, byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32()), text(), text())
	}
}
