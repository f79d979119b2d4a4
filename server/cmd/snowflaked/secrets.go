package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/server"
)

// watched is a value that is read from files, and again when they change.
type watched[T any] struct {
	files  []string
	read   func() (T, error)
	value  atomic.Pointer[T]
	seen   []os.FileInfo // the files when they were read
	failed string        // why they could not be read since; empty if they could
}

// every is how often the files are looked at. The tests change it.
var every = time.Second

// watch reads a value for the first time, and goes on watching its files until ctx is done.
func watch[T any](ctx context.Context, read func() (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, read: read, seen: stat(files)}
	value, err := read()
	if err != nil {
		return nil, err
	}
	w.value.Store(&value)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look()
			}
		}
	}()
	return w, nil
}

func (w *watched[T]) get() T { return *w.value.Load() }

// stat returns what tells a changed file from the file before. A file that cannot be seen has nil.
func stat(files []string) []os.FileInfo {
	infos := make([]os.FileInfo, len(files))
	for i, f := range files {
		infos[i], _ = os.Stat(f)
	}
	return infos
}

// unchanged is whether two looks at the same names saw the same files, which is not so if a link names
// another file now, even if its time and size are the same.
func unchanged(a, b []os.FileInfo) bool {
	return slices.EqualFunc(a, b, func(a, b os.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
}

// look reads the files again if they have changed. If they are no good, it keeps the old value and says
// so, once. It tries again until they are good, because the cause may be no change of the files:
// permissions, say, or too many open files.
func (w *watched[T]) look() {
	now := stat(w.files)
	if unchanged(now, w.seen) {
		return
	}
	value, err := w.read()
	if err != nil {
		if err.Error() != w.failed {
			slog.Error("the files are no good: the old ones stay in use", "files", w.files, "error", err)
		}
		w.failed = err.Error()
		return
	}
	slog.Info("the files were read again", "files", w.files)
	w.value.Store(&value)
	w.seen, w.failed = now, ""
}

// secrets reads the tokens and the certificates. The TLS configuration is nil without a certificate.
func (c *config) secrets(ctx context.Context) (*tls.Config, error) {
	if c.tokenFile != "" {
		w, err := watch(ctx, func() ([]server.Token, error) { return readTokens(c.tokenFile) }, c.tokenFile)
		if err != nil {
			return nil, refused("-token-file: %w", err)
		}
		c.server.Tokens = w.get
	}
	if c.cert == "" {
		return nil, nil
	}
	files := []string{c.cert, c.key}
	if c.clientCA != "" {
		files = append(files, c.clientCA)
	}
	w, err := watch(ctx, c.readTLS, files...)
	if err != nil {
		return nil, refused("%w", err)
	}
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.get(), nil }}, nil
}

// readTokens returns the tokens of a file, one a line: TOKEN, TOKEN name=NAME, or TOKEN name=NAME ids-per-second=N.
func readTokens(file string) (tokens []server.Token, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		t, err := readToken(words)
		if err != nil {
			return nil, fmt.Errorf("%s: token %d %w", file, len(tokens)+1, err)
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s has no token", file)
	}
	return tokens, nil
}

// readToken reads a token and its settings. An error does not show the token.
func readToken(words []string) (server.Token, error) {
	t := server.Token{Secret: words[0]}
	if strings.IndexFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return t, errors.New("has a character that is not printable ASCII, so no request can carry it")
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "name":
			t.Name = value
		case "ids-per-second":
			t.IDsPerSecond, _ = strconv.Atoi(value)
		default:
			return t, errors.New("is followed by something else than name=NAME and ids-per-second=N")
		}
		if value == "" || key == "ids-per-second" && t.IDsPerSecond < 1 {
			return t, fmt.Errorf("has no good %s: want name=NAME and ids-per-second=N, where N is 1 or more", key)
		}
	}
	if t.IDsPerSecond > 0 && t.Name == "" {
		return t, errors.New("has ids-per-second and no name: tokens of one name share their IDs")
	}
	return t, nil
}

func (c *config) readTLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("-tls-cert, -tls-key: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCA == "" {
		return config, nil
	}
	b, err := os.ReadFile(c.clientCA)
	if err != nil {
		return nil, fmt.Errorf("-tls-client-ca: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("-tls-client-ca: %s has no certificate in PEM", c.clientCA)
	}
	return config, nil
}
