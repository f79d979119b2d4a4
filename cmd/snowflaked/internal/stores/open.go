package stores

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	_ "modernc.org/sqlite" // the driver

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/dynamolease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
	"github.com/seed-5394e6b1/snowflake/lease/k8slease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// loginTime bounds the wait in Open for a server to accept the user.
const loginTime = 5 * time.Second

func openFile(_ context.Context, s *source) (lease.Store, func() error, error) {
	if s.path == "" {
		return nil, nil, s.bad("it has no directory")
	}
	return lease.File(s.path), nil, nil
}

func openSQLite(s *source) (*sql.DB, error) {
	return openSQLiteWith(s, "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
}

// openSQLiteWith opens a file with parameters of the driver.
func openSQLiteWith(s *source, parameters string) (*sql.DB, error) {
	if s.path == "" || strings.HasPrefix(s.path, ":") {
		return nil, s.bad("it has no file")
	}
	file := (&url.URL{Path: s.path}).EscapedPath()
	return sql.Open("sqlite", "file:"+file+"?"+parameters)
}

func openPostgres(s *source) (*sql.DB, error) {
	u := url.URL{Scheme: "postgres", Host: strings.Join(s.hosts, ","), Path: s.path, RawQuery: s.options.Encode()}
	if s.user != "" { // if the URL has no password, the driver looks for one in ~/.pgpass
		u.User = url.User(s.user)
	}
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, s.badFor(err)
	}
	if s.password != "" {
		config.Password = s.password
	}
	// Without this, pgx sends a ping before each renewal.
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	// By default, the driver reads the certificates only here, but they are renewed on disk.
	reread := func(_ context.Context, c *pgx.ConnConfig) error {
		is, err := pgx.ParseConfig(u.String())
		if err == nil {
			c.TLSConfig, c.Fallbacks = is.TLSConfig, is.Fallbacks
		}
		return err
	}
	return stdlib.OpenDB(*config, stdlib.OptionShouldPing(never), stdlib.OptionBeforeConnect(reread)), nil
}

func openMySQL(s *source) (*sql.DB, error) {
	config, err := mysql.ParseDSN("tcp(" + s.hosts[0] + ")/?" + s.options.Encode())
	if err != nil {
		return nil, s.badFor(err)
	}
	config.User, config.Passwd, config.DBName = s.user, s.password, strings.TrimPrefix(s.path, "/")
	config.Logger = &mysql.NopLogger{} // the driver also returns its errors
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// openSQL returns a function that opens a store in a database, which open opens.
func openSQL(
	open func(*source) (*sql.DB, error), dialect sqllease.Dialect,
) func(context.Context, *source) (lease.Store, func() error, error) {
	return func(_ context.Context, s *source) (lease.Store, func() error, error) {
		table := s.take("table")
		db, err := open(s)
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(2) // one to renew, and one for other calls meanwhile
		store, err := sqllease.New(db, dialect, &sqllease.Options{Table: table})
		return store, db.Close, err
	}
}

func openRedis(_ context.Context, s *source) (lease.Store, func() error, error) {
	if s.user != "" && s.password == "" { // the client would not log in
		return nil, nil, s.bad("it has a user and no password")
	}
	if strings.Trim(s.path, "/") != "" && s.options.Has("db") {
		return nil, nil, s.bad("it has a database number in its path and in the option db")
	}
	replicas, err := s.number("replicas")
	if err != nil {
		return nil, nil, err
	}
	opts := &redislease.Options{Prefix: s.take("prefix"), Replicas: replicas}
	u := url.URL{Scheme: s.scheme, Host: s.hosts[0], Path: s.path, RawQuery: s.options.Encode()}
	config, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, nil, s.badFor(err)
	}
	config.Username, config.Password = s.user, s.password
	config.ContextTimeoutEnabled = true
	if config.DialTimeout == 0 {
		config.DialTimeout = time.Second
	}
	client := redis.NewClient(config)
	store, err := redislease.New(client, opts)
	return store, client.Close, err
}

func openEtcd(ctx context.Context, s *source) (lease.Store, func() error, error) {
	if strings.Trim(s.path, "/") != "" {
		return nil, nil, s.bad("it has a path: write ?prefix=")
	}
	if err := s.login(); err != nil {
		return nil, nil, err
	}
	config := etcdlease.Config(s.hosts...)
	config.Username, config.Password = s.user, s.password
	if s.scheme == "etcds" {
		var err error
		if config.TLS, err = s.tls(); err != nil {
			return nil, nil, err
		}
		config.DialOptions = append(config.DialOptions, grpc.WithTransportCredentials(rereading{credentials.NewTLS(config.TLS), s}))
	}
	if deadline, ok := ctx.Deadline(); ok { // of the login
		config.DialTimeout = min(loginTime, time.Until(deadline))
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, nil, err
	}
	store, err := etcdlease.New(client, &etcdlease.Options{Prefix: s.options.Get("prefix")})
	return store, client.Close, err
}

// rereading are credentials that read the files again for each connection, since certificates are
// renewed on disk.
type rereading struct {
	credentials.TransportCredentials
	s *source
}

func (r rereading) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := r.s.tls()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

func (r rereading) Clone() credentials.TransportCredentials {
	return rereading{r.TransportCredentials.Clone(), r.s}
}

// tls reads the files that the options name.
func (s *source) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := s.options.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: there is no certificate in %s", lease.ErrInvalidOptions, file)
		}
	}
	if cert, key := s.options.Get("cert"), s.options.Get("key"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the options cert %q and key %q: %w", cert, key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func openZooKeeper(ctx context.Context, s *source) (lease.Store, func() error, error) {
	if s.user == "" && s.password != "" {
		return nil, nil, s.bad("it has a password and no user")
	}
	session := 4 * time.Second
	if text := s.options.Get("session"); text != "" {
		var err error
		if session, err = time.ParseDuration(text); err != nil || session <= 0 {
			return nil, nil, s.bad("the option session is not a time above 0, such as 4s")
		}
	}
	conn, err := zklease.Connect(s.hosts, session)
	if err != nil {
		return nil, nil, err
	}
	closeConn := func() error { conn.Close(); return nil }
	opts := &zklease.Options{Root: strings.TrimSuffix(s.path, "/")}
	if s.user != "" {
		opts.ACL = zk.AuthACL(zk.PermAll)
		if err := login(ctx, conn, s.user+":"+s.password); err != nil {
			return nil, closeConn, err
		}
	}
	store, err := zklease.New(conn, opts)
	return store, closeConn, err
}

// login logs in to ZooKeeper, as soon as there is a server.
func login(ctx context.Context, conn *zk.Conn, who string) error {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	done := make(chan error, 1)
	try := func() { done <- conn.AddAuth("digest", []byte(who)) }
	go try()
	for {
		select {
		case err := <-done:
			if !errors.Is(err, zk.ErrNoServer) {
				return err
			}
			time.AfterFunc(100*time.Millisecond, try)
		case <-ctx.Done(): // when the caller closes the connection, the call ends
			return fmt.Errorf("%w: %w", zk.ErrNoServer, ctx.Err())
		}
	}
}

func openKubernetes(_ context.Context, s *source) (lease.Store, func() error, error) {
	opts := &k8slease.Options{Namespace: s.path, Prefix: s.options.Get("prefix")}
	open := k8slease.InCluster
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		open = byKubeconfig
	}
	store, err := open(opts)
	if errors.Is(err, rest.ErrNotInCluster) {
		err = fmt.Errorf("%w; outside of a pod, set KUBECONFIG to the path of a kubeconfig", err)
	}
	return store, nil, err
}

func byKubeconfig(opts *k8slease.Options) (*k8slease.Store, error) {
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
	config, err := file.ClientConfig()
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case clientcmd.IsEmptyConfig(err): // its text names variables that this package does not read
		return nil, fmt.Errorf("KUBECONFIG=%s: there is no such kubeconfig, or it names no cluster", path)
	case err != nil:
		return nil, fmt.Errorf("KUBECONFIG=%s: %w", path, err)
	}
	if opts.Namespace == "" {
		if opts.Namespace, _, err = file.Namespace(); err != nil {
			return nil, err
		}
	}
	return k8slease.New(config, opts)
}

func openNATS(_ context.Context, s *source) (lease.Store, func() error, error) {
	if strings.Trim(s.path, "/") != "" {
		return nil, nil, s.bad("it has a path: write ?bucket=")
	}
	if err := s.login(); err != nil {
		return nil, nil, err
	}
	replicas, err := s.number("replicas")
	if err != nil {
		return nil, nil, err
	}
	var login []nats.Option
	if s.user != "" {
		login = append(login, nats.UserInfo(s.user, s.password))
	}
	if file := s.options.Get("creds"); file != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, nil, err
		}
		login = append(login, nats.UserCredentials(file))
	}
	if s.scheme == "natss" {
		config, err := s.tls()
		if err != nil {
			return nil, nil, err
		}
		// The client asks again for each connection, since certificates are renewed on disk.
		login = append(login, nats.Secure(&tls.Config{MinVersion: config.MinVersion}))
		if ca := s.options.Get("ca"); ca != "" {
			login = append(login, nats.RootCAs(ca))
		}
		if config.Certificates != nil {
			login = append(login, nats.ClientCert(s.options.Get("cert"), s.options.Get("key")))
		}
	}
	conn, err := natslease.Connect("nats://"+strings.Join(s.hosts, ",nats://"), login...)
	if err != nil {
		return nil, nil, err
	}
	closeConn := func() error { conn.Close(); return nil }
	store, err := natslease.New(conn, &natslease.Options{Bucket: s.options.Get("bucket"), Replicas: replicas})
	return store, closeConn, err
}

func openS3(ctx context.Context, s *source) (lease.Store, func() error, error) {
	bucket, cfg, err := s.aws(ctx)
	if err != nil {
		return nil, nil, err
	}
	opts := &s3lease.Options{Prefix: strings.Trim(s.path, "/")}
	for name, field := range map[string]*bool{"path_style": &opts.PathStyle, "conditional_delete": &opts.ConditionalDelete} {
		if text := s.options.Get(name); text != "" {
			if *field, err = strconv.ParseBool(text); err != nil {
				return nil, nil, s.bad(fmt.Sprintf("the option %s is not true or false", name))
			}
		}
	}
	store, err := s3lease.New(cfg, bucket, opts)
	return store, nil, err
}

func openDynamoDB(ctx context.Context, s *source) (lease.Store, func() error, error) {
	table, cfg, err := s.aws(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err := dynamolease.New(cfg, table, &dynamolease.Options{Store: strings.Trim(s.path, "/")})
	return store, nil, err
}

// aws returns the bucket or table of a URL, and the config to reach it.
func (s *source) aws(ctx context.Context) (name string, cfg aws.Config, err error) {
	name, isName := strings.CutSuffix(s.hosts[0], ":"+schemes[s.scheme].port)
	switch {
	case !isName:
		return "", cfg, s.bad("a bucket or table has no port: write ?endpoint=")
	case s.user != "" || s.password != "":
		return "", cfg, s.bad("it has a user: credentials are the machine's, or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	cfg, err = awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(s.options.Get("region")), awsconfig.WithLogger(logging.Nop{}))
	if err != nil {
		return "", cfg, err
	}
	if endpoint := s.options.Get("endpoint"); endpoint != "" {
		cfg.BaseEndpoint = &endpoint
	}
	return name, cfg, nil
}
