package main

import (
	"bytes"
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

// every is how often the files are read. The tests change it.
var every = time.Second

// watch reads a value from files, and again when their contents have changed, until ctx is done. If the files are no good
// then, the value stays, and the log says why, once.
func watch[T any](ctx context.Context, parse func(contents ...[]byte) (T, error), files ...string) (get func() T, err error) {
	seen, err := readFiles(files)
	if err != nil {
		return nil, err
	}
	first, err := parse(seen...)
	if err != nil {
		return nil, err
	}
	var value atomic.Pointer[T]
	value.Store(&first)
	said := ""
	go repeat(ctx, every, func() {
		now, err := readFiles(files)
		if err == nil && slices.EqualFunc(now, seen, bytes.Equal) {
			return
		}
		var next T
		if err == nil {
			next, err = parse(now...)
		}
		if err == nil {
			slog.Info("the files were read again", "files", files)
			value.Store(&next)
			seen, said = now, ""
		} else if err.Error() != said {
			slog.Error("the files are no good: the old ones stay in use", "files", files, "error", err)
			said = err.Error()
		}
	})
	return func() T { return *value.Load() }, nil
}

func readFiles(files []string) (contents [][]byte, err error) {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		contents = append(contents, b)
	}
	return contents, nil
}

// repeat calls do again and again, until ctx is done.
func repeat(ctx context.Context, every time.Duration, do func()) {
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// secrets reads the tokens and the certificates. The TLS configuration is nil without a certificate.
func (c *config) secrets(ctx context.Context) (*tls.Config, error) {
	if c.tokenFile != "" {
		tokens, err := watch(ctx, parseTokens, c.tokenFile)
		if err != nil {
			return nil, refused("-token-file %s: %w", c.tokenFile, err)
		}
		c.server.Tokens = tokens
	}
	if c.cert == "" {
		return nil, nil
	}
	files := []string{c.cert, c.key}
	if c.clientCA != "" {
		files = append(files, c.clientCA)
	}
	get, err := watch(ctx, parseTLS, files...)
	if err != nil {
		return nil, refused("-tls-cert, -tls-key, -tls-client-ca: %w", err)
	}
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return get(), nil }}, nil
}

// parseTokens returns the tokens of a file, one a line: TOKEN, TOKEN name=NAME, or TOKEN name=NAME ids-per-second=N.
func parseTokens(file ...[]byte) (tokens []server.Token, err error) {
	for line := range strings.Lines(string(file[0])) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		t, err := parseToken(words)
		if err != nil {
			return nil, fmt.Errorf("token %d %w", len(tokens)+1, err)
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 {
		return nil, errors.New("there is no token")
	}
	return tokens, nil
}

// parseToken reads a token and its settings. An error does not show the token.
func parseToken(words []string) (server.Token, error) {
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

// parseTLS returns the configuration of a certificate, its key and, if clients need certificates, their authorities, in PEM.
func parseTLS(files ...[]byte) (*tls.Config, error) {
	cert, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	if len(files) > 2 {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(files[2]) {
			return nil, errors.New("the file of clients' authorities has no certificate in PEM")
		}
	}
	return config, nil
}
