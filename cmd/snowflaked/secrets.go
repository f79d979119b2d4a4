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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/server"
)

// every is the interval at which the files are read. The tests change it.
var every = time.Second

// watch reads a value from files, and reads it again whenever their contents change, until ctx is
// done. If the new contents are invalid, the old value stays, the error is logged once, and bad is
// 1.
func watch[T any](
	ctx context.Context, bad prometheus.Gauge, parse func(contents ...[]byte) (T, error), files ...string,
) (get func() T, err error) {
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
			if said != "" {
				slog.Info("the files have their old contents again", "files", files)
			}
			said = ""
			bad.Set(0)
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
			bad.Set(0)
			return
		}
		bad.Set(1)
		if err.Error() != said {
			slog.Error("the new files are invalid: the old ones stay in use", "files", files, "error", err)
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

// repeat calls do at once and then at each interval, until ctx is done.
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

// secrets has the values that were read from files.
type secrets struct {
	tls     *tls.Config // nil without a certificate
	metrics []prometheus.Collector
}

// secrets reads the tokens and the certificates, and watches their files.
func (c *config) secrets(ctx context.Context) (out secrets, err error) {
	bad := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "snowflake_server_reload_failed",
		Help: "1 if the new files of tokens, or of TLS, are invalid: the old ones stay in use.",
	}, []string{"files"})
	out.metrics = []prometheus.Collector{bad}
	if c.tokenFile != "" {
		tokens, err := watch(ctx, bad.WithLabelValues("tokens"), parseTokens, c.tokenFile)
		if err != nil {
			return out, command.Refused("--token-file %s: %w", c.tokenFile, err)
		}
		c.server.Tokens = tokens
	}
	warnReadable("--token-file", c.tokenFile)
	warnReadable("--tls-key", c.key)
	if c.cert == "" {
		return out, nil
	}
	files := []string{c.cert, c.key}
	if c.clientCA != "" {
		files = append(files, c.clientCA)
	}
	get, err := watch(ctx, bad.WithLabelValues("tls"), parseTLS, files...)
	if err != nil {
		return out, command.Refused("--tls-cert, --tls-key, --tls-client-ca: %w", err)
	}
	out.tls = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return get(), nil }}
	out.metrics = append(out.metrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "snowflake_server_certificate_not_after_timestamp_seconds",
		Help: "When the certificate in use expires, in seconds since 1970.",
	}, func() float64 { return float64(get().Certificates[0].Leaf.NotAfter.Unix()) }))
	return out, nil
}

// warnReadable warns of a file with secrets that every user of the host can read.
func warnReadable(flag, file string) {
	if info, err := os.Stat(file); file != "" && err == nil && readableByAll(info.Mode()) {
		slog.Warn("every user of this host can read the file: chmod o-r", "flag", flag, "file", file, "mode", info.Mode().String())
	}
}

// parseTokens returns the tokens of a file, one a line: TOKEN, TOKEN name=NAME, or TOKEN name=NAME
// ids-per-second=N burst=N.
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
		for i, o := range tokens {
			switch {
			case o.Secret == t.Secret:
				return nil, fmt.Errorf("token %d is the same as token %d", len(tokens)+1, i+1)
			case o.Name == t.Name && min(o.IDsPerSecond, t.IDsPerSecond) > 0 && (o.IDsPerSecond != t.IDsPerSecond || o.Burst != t.Burst):
				return nil, fmt.Errorf("token %d has another quota than token %d of the same name, "+
					"but tokens of one name share a quota", len(tokens)+1, i+1)
			}
		}
		tokens = append(tokens, t)
	}
	if len(tokens) == 0 {
		return nil, errors.New("the file has no token")
	}
	return tokens, nil
}

// shortestToken is the least length of a token: 64 bits in hexadecimal digits.
const shortestToken = 16

// parseToken reads a token and its settings. An error does not show the token.
func parseToken(words []string) (server.Token, error) {
	t := server.Token{Secret: words[0]}
	if strings.IndexFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return t, errors.New("has a character that is not printable ASCII, so no request can carry it")
	}
	if len(t.Secret) < shortestToken {
		return t, fmt.Errorf("has only %d characters, and could be guessed: use %d or more, for example from \"openssl rand -hex 16\"",
			len(t.Secret), shortestToken)
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "name":
			t.Name = value
		case "ids-per-second":
			t.IDsPerSecond, _ = strconv.Atoi(value)
		case "burst":
			t.Burst, _ = strconv.Atoi(value)
		default:
			return t, errors.New("is followed by something other than name=NAME, ids-per-second=N and burst=N")
		}
		if value == "" || key == "ids-per-second" && t.IDsPerSecond < 1 || key == "burst" && t.Burst < 1 {
			return t, fmt.Errorf("has an invalid %s: want name=NAME, ids-per-second=N and burst=N, where N is 1 or more", key)
		}
	}
	if t.Burst > 0 && t.IDsPerSecond == 0 {
		return t, errors.New("has burst but no ids-per-second")
	}
	if t.IDsPerSecond > 0 && t.Name == "" {
		return t, errors.New("has ids-per-second but no name: tokens of one name share a quota")
	}
	return t, nil
}

// parseTLS returns the configuration of a certificate, its key and, if clients need certificates,
// their authorities, in PEM.
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
