package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// watched is a value that is read from files, and again when they change.
type watched[T any] struct {
	files []string
	read  func() (T, error)

	mu     sync.Mutex
	value  T
	seen   []os.FileInfo // the files when they were read
	failed string        // why they could not be read since; empty if they could
	looked time.Time
}

// every is how often the files are looked at, at most. The tests change it.
var every = time.Second

// watch reads a value for the first time.
func watch[T any](read func() (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, read: read, seen: stat(files), looked: time.Now()}
	var err error
	w.value, err = read()
	return w, err
}

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

// get returns the value. If the files have changed and are no good, it keeps the old value and says
// so, once. It tries again until they are good, because the cause may be no change of the files:
// permissions, say, or too many open files.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) < every {
		return w.value
	}
	w.looked = time.Now()
	now := stat(w.files)
	if unchanged(now, w.seen) {
		return w.value
	}
	value, err := w.read()
	if err != nil {
		if err.Error() != w.failed {
			slog.Error("the files are no good: the old ones stay in use", "files", w.files, "error", err)
		}
		w.failed = err.Error()
		return w.value
	}
	slog.Info("the files were read again", "files", w.files)
	w.value, w.seen, w.failed = value, now, ""
	return value
}

// secrets reads the tokens and the certificates. The TLS configuration is nil without a certificate.
func (c *config) secrets() (*tls.Config, error) {
	if c.tokenFile != "" {
		w, err := watch(func() ([]string, error) { return readTokens(c.tokenFile) }, c.tokenFile)
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
	w, err := watch(c.readTLS, files...)
	if err != nil {
		return nil, refused("%w", err)
	}
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.get(), nil }}, nil
}

// readTokens returns the tokens of a file, one a line.
func readTokens(file string) (tokens []string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" {
			if strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
				return nil, fmt.Errorf("%s: token %d has a character that is not printable ASCII, so no request can carry it", file, len(tokens)+1)
			}
			tokens = append(tokens, line)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s has no token", file)
	}
	return tokens, nil
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
