// Package urllease opens the store of leases that a URL names, so that the operator of a program
// can choose its store.
//
//	store, closeStore, err := urllease.Open(ctx, os.Getenv("STORE"))
//	...
//	defer closeStore()
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//
// The package requires the drivers and clients of all stores, and each program that imports it
// downloads and links them. If your program uses one engine, import that engine's package instead,
// such as lease/natslease: it is a module with one client. If your program lets its operator choose
// between two engines, import the two packages and choose by the URL's scheme: to open a store
// takes some five lines.
//
// It is a package, and not a part of snowflaked, for the programs of others: the form of a URL, the
// options, the files of TLS and the redaction are then the same for all stores, and each store's
// package requires its own client alone. sqllease could not read URLs: for that it would have to
// require three drivers.
//
// # URLs
//
//	file:DIRECTORY                                     lease.File
//	sqlite:FILE                                        sqllease
//	postgres://USER:PASSWORD@HOST:5432/DATABASE        sqllease
//	mysql://USER:PASSWORD@HOST:3306/DATABASE           sqllease
//	redis://USER:PASSWORD@HOST:6379/NUMBER             redislease; rediss: with TLS
//	etcd://USER:PASSWORD@HOST:2379,HOST:2379           etcdlease; etcds: with TLS
//	zk://USER:PASSWORD@HOST:2181,HOST:2181/ROOT        zklease
//	kubernetes:NAMESPACE                               k8slease
//	nats://USER:PASSWORD@HOST:4222,HOST:4222           natslease; natss: with TLS
//	s3://BUCKET/PREFIX                                 s3lease
//	dynamodb://TABLE/STORE                             dynamolease
//
// A text that begins with one / is the path of a directory: /var/lib/ids means file:///var/lib/ids,
// and % and ? in it mean themselves. You may leave out the user, the password, the port and
// everything after the hosts. postgresql: is the same as postgres:, and mariadb: the same as
// mysql:. In user, password, path and options write % as %25, # as %23 and ? as %3F. In user and
// password also write / as %2F.
//
// A few options may follow, as in ?table=orders_workers:
//
//   - postgres, mysql and sqlite: table is sqllease.Options.Table. With postgres and mysql, other
//     options are the driver's, such as sslmode=verify-full for github.com/jackc/pgx and tls=true
//     for github.com/go-sql-driver/mysql.
//   - redis and rediss: prefix and replicas are fields of redislease.Options. Other options go to
//     redis.ParseURL, such as dial_timeout=1s, which is the default here.
//   - etcd and etcds: prefix is etcdlease.Options.Prefix. With etcds, ca, cert and key are files in
//     PEM, which are read again for each connection, as postgres' sslrootcert, sslcert and sslkey
//     are; if there is no ca, the host's certificate authorities count.
//   - zk: session is the session timeout, by default 4s. If the URL has a user, only this user
//     gets rights to the znodes that the store makes.
//   - kubernetes: prefix is k8slease.Options.Prefix.
//   - nats and natss: bucket and replicas are fields of natslease.Options, and creds is a file of
//     credentials (of a user with a JWT). With natss also ca, cert and key, as with etcds.
//   - s3 and dynamodb: region and endpoint, such as endpoint=http://localhost:9000. If there is
//     none, the environment and the files of the AWS SDK count, as they always do for credentials.
//   - s3: path_style=true and conditional_delete=true are fields of s3lease.Options.
//
// If the environment variable KUBECONFIG names a kubeconfig, kubernetes: is the kubeconfig's
// cluster. If KUBECONFIG is empty, it is the cluster of this pod. If the URL has no namespace, the
// namespace of the kubeconfig or of the pod is taken.
//
// # Passwords
//
// Errors of this package contain no passwords, and no values of options but the names of files. If
// you log a URL, remove both with [Redact]. Write the password before the host only: options such
// as password=... are refused. Other users of the machine may see a program's arguments, so if a
// URL has a password, pass it in an environment variable or a file.
package urllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Open returns the store that a URL names, and a function that closes its connections. Call the
// function after you have released the leases. The store has its package's type, such as
// *sqllease.Store, and writes no log of its client.
//
// If the URL has a user, a client of etcd or ZooKeeper logs in, for up to 5 s. Otherwise Open makes
// no requests, so if there is no server, lease.Acquire returns the error.
//
// If the URL does not name a store, the error is a [*URLError], as Check returns it or the store's
// client. Other errors come from the store's package and from its client.
func Open(ctx context.Context, url string) (store lease.Store, close func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s, err := parse(url)
	if err != nil {
		return nil, nil, err
	}
	store, end, err := schemes[s.scheme].open(ctx, s)
	if end == nil {
		end = func() error { return nil }
	}
	if err == nil {
		return store, end, nil
	}
	if bad := (*URLError)(nil); errors.As(err, &bad) {
		return nil, nil, err
	}
	if errors.Is(err, lease.ErrInvalidOptions) {
		_ = end() // nothing was sent
		return nil, nil, s.badFor(err)
	}
	return nil, nil, fmt.Errorf("urllease: %q: %w", Redact(url), errors.Join(err, end()))
}

// OpenDB returns the database that a URL names whose scheme is postgres, mysql or sqlite: the one
// in which Open would look for the store, for programs that also read other tables. It makes no
// requests. The errors are those of Open.
func OpenDB(url string) (*sql.DB, error) {
	s, err := parse(url)
	if err != nil {
		return nil, err
	}
	open := schemes[s.scheme].database
	if open == nil {
		return nil, s.bad("it names no database: want postgres:, mysql: or sqlite:")
	}
	s.take("table")
	return open(s)
}

// Check returns a [*URLError] if a URL does not have the form of a store's URL. It makes no
// requests.
func Check(url string) error {
	_, err := parse(url)
	return err
}
