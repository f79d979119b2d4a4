package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// scheme has the properties of the URLs with a scheme, and opens them.
type scheme struct {
	// open opens a store. Unless end is nil, it closes the client, even if there is an error.
	open    func(ctx context.Context, s *source) (store lease.Store, end func() error, err error)
	port    string // the default port of its servers; empty if the store has no hosts
	several bool   // whether it may have several hosts
	options string // the options that the URL may have; *: any, because the driver has more

	database func(s *source) (*sql.DB, error) // opens the database of a SQL store; nil for others
}

var schemes map[string]scheme

func init() { // because the openers need schemes for their errors
	schemes = map[string]scheme{
		"file":       {openFile, "", false, "", nil},
		"sqlite":     {openSQL(openSQLite, sqllease.SQLite), "", false, "table", openSQLite},
		"postgres":   {openSQL(openPostgres, sqllease.PostgreSQL), "5432", true, "*", openPostgres},
		"postgresql": {openSQL(openPostgres, sqllease.PostgreSQL), "5432", true, "*", openPostgres},
		"mysql":      {openSQL(openMySQL, sqllease.MySQL), "3306", false, "*", openMySQL},
		"mariadb":    {openSQL(openMySQL, sqllease.MySQL), "3306", false, "*", openMySQL},
		"redis":      {openRedis, "6379", false, "*", nil},
		"rediss":     {openRedis, "6379", false, "*", nil},
		"etcd":       {openEtcd, "2379", true, "prefix", nil},
		"etcds":      {openEtcd, "2379", true, "prefix ca cert key", nil},
		"zk":         {openZooKeeper, "2181", true, "session", nil},
		"kubernetes": {openKubernetes, "", false, "prefix", nil},
		"nats":       {openNATS, "4222", true, "bucket replicas creds", nil},
		"natss":      {openNATS, "4222", true, "bucket replicas creds ca cert key", nil},
		"s3":         {openS3, "443", false, "region endpoint path_style conditional_delete", nil},
		"dynamodb":   {openDynamoDB, "443", false, "region endpoint", nil},
	}
}

// URLError is the error for a URL that does not name a store. It matches [lease.ErrInvalidOptions].
type URLError struct {
	URL    string // without its password: see Redact
	Reason string
}

func (e *URLError) Error() string {
	return fmt.Sprintf("%q is not the URL of a store: %s; the forms are %s", e.URL, e.Reason, forms)
}

// Is reports whether target is [lease.ErrInvalidOptions].
func (e *URLError) Is(target error) bool { return target == lease.ErrInvalidOptions }

const forms = "file:DIRECTORY, sqlite:FILE, postgres://HOST/DATABASE, mysql://HOST/DATABASE, " +
	"redis://HOST, rediss://HOST, etcd://HOST,HOST, etcds://HOST,HOST, zk://HOST,HOST/ROOT, nats://HOST,HOST, " +
	"natss://HOST,HOST, kubernetes:NAMESPACE, s3://BUCKET/PREFIX and dynamodb://TABLE/STORE"

// source is a parsed URL. Package net/url accepts only one host, and its errors contain passwords.
type source struct {
	raw            string
	scheme         string
	user, password string
	hosts          []string // each with a port
	path           string   // with its escapes decoded
	options        url.Values
	values         []string // of the options, without those that are the names of files
	valid          bool     // all of raw was read
}

func parse(raw string) (*source, error) {
	if isPath(raw) && !strings.ContainsRune(raw, 0) {
		return &source{raw: raw, scheme: "file", path: raw, valid: true}, nil
	}
	name, rest, _ := strings.Cut(raw, ":")
	s := &source{raw: raw, scheme: strings.ToLower(name)}
	known, ok := schemes[s.scheme]
	if !ok {
		return nil, s.bad("its scheme is unknown")
	}
	if strings.Contains(rest, "#") {
		return nil, s.bad("# must be written as %23")
	}
	authority := strings.TrimPrefix(rest, "//")
	if i := strings.IndexAny(authority, "/?"); known.port != "" && i >= 0 && strings.Contains(authority[i:], "@") {
		return nil, s.bad("after the first / or ?, @ must be written as %40; within a password, / is %2F and ? is %3F")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if err := s.setOptions(query, known.options); err != nil {
		return nil, err
	}
	path := rest
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		i := strings.IndexByte(authority+"/", '/')
		authority, path = authority[:i], authority[i:]
		if err := s.setAuthority(authority, known.port); err != nil {
			return nil, err
		}
	}
	switch {
	case known.port != "" && len(s.hosts) == 0:
		return nil, s.bad("it has no host")
	case len(s.hosts) > 1 && !known.several:
		return nil, s.bad("it has several hosts")
	}
	var err error
	if s.path, err = url.PathUnescape(path); err != nil || strings.ContainsRune(s.path, 0) {
		return nil, s.bad("its path has a % that is not an escape, or a zero byte")
	}
	if known.port == "" && strings.HasPrefix(s.path, "~") {
		return nil, s.bad("only a shell replaces ~: write the whole path")
	}
	s.valid = true
	return s, nil
}

// isPath reports whether a text is the path of a directory, and no URL.
func isPath(raw string) bool { return strings.HasPrefix(raw, "/") && !strings.HasPrefix(raw, "//") }

func (s *source) setOptions(query, allowed string) (err error) {
	for pair := range strings.SplitSeq(query, "&") {
		// The option's name is not shown: it may be the rest of a password with a ?.
		if pair != "" && !strings.Contains(pair, "=") {
			return s.bad("after ? it has an option without =; within a password, ? is written %3F")
		}
	}
	if s.options, err = url.ParseQuery(query); err != nil {
		return s.bad("its options cannot be read")
	}
	for name, values := range s.options {
		switch {
		case len(values) > 1:
			return s.bad(fmt.Sprintf("the option %q is there %d times", name, len(values)))
		case secretName.MatchString(name):
			return s.bad("a password is given before the host, as in USER:PASSWORD@HOST")
		case allowed != "*" && !slices.Contains(strings.Fields(allowed), name):
			return s.bad(fmt.Sprintf("there is no option %q", name))
		}
		if !slices.Contains([]string{"ca", "cert", "key", "creds"}, name) {
			s.values = append(s.values, values[0])
		}
	}
	return nil
}

// setAuthority takes user, password and hosts from the text between // and /.
func (s *source) setAuthority(authority, port string) error {
	if port == "" {
		if authority != "" {
			return s.bad("after // it has a host, but its store has no hosts: leave // out")
		}
		return nil
	}
	hosts := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		hosts = authority[i+1:]
		user, password, _ := strings.Cut(authority[:i], ":")
		var err1, err2 error
		s.user, err1 = url.PathUnescape(user)
		s.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return s.bad("its user or password has a % that is not an escape: write %25")
		}
	}
	if hosts == "" {
		return nil
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if !strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") {
			host += ":" + port
		}
		if !goodHost.MatchString(host) {
			return s.bad("a host is not a name or address, or its port is not a number")
		}
		if _, err := strconv.ParseUint(host[strings.LastIndexByte(host, ':')+1:], 10, 16); err != nil {
			return s.bad("a port is over 65535")
		}
		// %25 is before the zone of an IPv6 address.
		s.hosts = append(s.hosts, strings.Replace(host, "%25", "%", 1))
	}
	return nil
}

var goodHost = regexp.MustCompile(`^([-_.0-9A-Za-z]+|\[[0-9A-Fa-f:.]+(%25[-_.0-9A-Za-z]+)?\]):[0-9]{1,5}$`)

func (s *source) bad(reason string) error { return &URLError{s.String(), reason} }

// badFor is bad with the error of a client that does not know the password. It hides the values of
// options.
func (s *source) badFor(err error) error {
	text := err.Error()
	for _, v := range s.values {
		quoted := strconv.Quote(v) // with %q
		for _, form := range []string{v, url.QueryEscape(v), quoted[1 : len(quoted)-1]} {
			text = hide(text, form)
		}
	}
	return s.bad(text)
}

// hide replaces a value in a text. A value of under four characters may be part of other words, so
// it is replaced only where it is a word.
func hide(text, value string) string {
	if len(value) >= 4 {
		return strings.ReplaceAll(text, value, redacted)
	}
	if value == "" {
		return text
	}
	return regexp.MustCompile(`(^|\W)`+regexp.QuoteMeta(value)+`(\W|$)`).ReplaceAllString(text, "${1}"+redacted+"${2}")
}

// login returns an error if the URL has a user but no password, or a password but no user. The
// store's client would ignore both.
func (s *source) login() error {
	if (s.user == "") != (s.password == "") {
		return s.bad("it has only one of user and password")
	}
	return nil
}

// take removes an option and returns its value.
func (s *source) take(name string) string {
	v := s.options.Get(name)
	s.options.Del(name)
	return v
}

// number takes an option that is a number. Without the option it is 0.
func (s *source) number(name string) (n int, err error) {
	if text := s.take(name); text != "" {
		if n, err = strconv.Atoi(text); err != nil {
			return 0, s.bad("the option " + name + " is not a number")
		}
	}
	return n, nil
}

const redacted = command.Redacted

var secretName = regexp.MustCompile(`(?i)(password|passwd|pass|pwd|secret|token)$`)

// Redact returns a URL with xxxxx instead of its password and of the values of its options. If the
// URL is not valid, its password may be anywhere, so Redact returns at most the scheme.
func Redact(url string) string {
	s, err := parse(url)
	if bad := (*URLError)(nil); errors.As(err, &bad) {
		return bad.URL
	}
	return s.String()
}

// optionValue matches the value of an option.
var optionValue = regexp.MustCompile(`=[^&]*`)

// String returns the URL as Redact does.
func (s *source) String() string {
	known, ok := schemes[s.scheme]
	switch {
	case isPath(s.raw):
		return s.raw
	case !ok:
		return command.Harmless(s.raw)
	case !s.valid:
		return s.scheme + ":" + redacted
	}
	rest, query, hasQuery := strings.Cut(s.raw, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && known.port != "" {
		start := strings.Index(rest, "//") + len("//")
		colon := strings.IndexByte(rest[start:at], ':')
		// In these two, people write a password in the place of the user.
		alone := strings.HasPrefix(s.scheme, "redis") || strings.HasPrefix(s.scheme, "nats")
		switch {
		case colon >= 0:
			start += colon + 1
		case !alone:
			start = at
		}
		if start < at {
			rest = rest[:start] + redacted + rest[at:]
		}
	}
	if hasQuery {
		rest += "?" + optionValue.ReplaceAllString(query, "="+redacted)
	}
	return rest
}
