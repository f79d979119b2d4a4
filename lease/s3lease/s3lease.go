// Package s3lease leases worker IDs from a bucket of Amazon S3, or of another service with the same
// protocol. There is no server to run.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	...
//	store, err := s3lease.New(cfg, "my-bucket", nil)
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// For a service other than Amazon's, set the variable AWS_ENDPOINT_URL_S3, and [Options.PathStyle]
// if the service expects the bucket in the path.
//
// # Services
//
// The service must have conditional writes: PutObject must obey If-None-Match and If-Match,
// atomically. A store tests this with its first writes, and refuses a service that ignores a
// condition. It cannot test whether a service is atomic. According to their documentation (November
// 2026), services support the following; Options.ConditionalDelete uses conditional deletes:
//
//	                      conditional puts              conditional deletes
//	Amazon S3             yes, since November 2024      yes, since September 2025
//	Cloudflare R2         yes                           no
//	MinIO                 yes, after August 2025 (1)    no: If-Match is ignored
//	Ceph                  yes, new releases (2)         yes, in new releases
//	Google Cloud Storage  no (3)                        no
//
//	(1) Earlier releases create an object that does not exist, in spite of If-Match.
//	(2) Older releases ignore If-None-Match: *.
//	(3) Its conditions are on generations (x-goog-if-generation-match).
//
// Only versitygw 1.8.0 was tested. Of a hundred writers of one object exactly one won, in each of
// 200 rounds. Its deletes are not atomic: of 1,000 deletes concurrent with a put with the same
// If-Match, both succeeded in 20. So do not set ConditionalDelete for it. Under constant writes, 3
// of 1,000 reads returned the new content with the old ETag. This does no harm: the next put is
// refused, and package lease reads again.
//
// # Storage
//
// An entry is an object. Its content is a random text, a space, and the entry's value. Contents are
// unique, and so are ETags: the ETag is the entry's version. A renewal is one PutObject with
// If-Match.
//
// Some services ignore If-Match in deletes. So unless [Options.ConditionalDelete] is set, Delete
// replaces the entry by an object of 26 bytes without a value, which counts as no entry. The object
// stays until the next Put of its key. There is one for each part of an old history.
//
// # Rights
//
//	{
//	  "Version": "2012-10-17",
//	  "Statement": [
//	    {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"],
//	     "Resource": "arn:aws:s3:::my-bucket/snowflake/*"},
//	    {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::my-bucket"}
//	  ]
//	}
//
// ConditionalDelete also needs s3:DeleteObject. Without s3:ListBucket, S3 answers 403 if an object
// does not exist.
//
// # Costs
//
// Each holder sends three requests in a window, and a start about ten. With [DefaultWindow], 1,000
// holders send 25 puts a second, 64.8 million in 30 days. At Amazon's list price for S3 Standard in
// us-east-1 (0.005 dollars for 1,000 puts; 2026) they cost 324 dollars, and at Cloudflare's for R2
// (4.50 dollars for a million class A operations; 2026) 292 dollars. So S3 suits about ten holders,
// for about 3 dollars. For a thousand use package dynamolease, which costs a third or less, or let
// snowflaked hold a few worker IDs for all.
//
// With a window of 2 minutes, holders survive an outage of 80 s. The worker ID of a crashed process
// stays unused for 2 minutes.
//
// # Hazards
//
// HAZARD: if a bucket is replicated, as between regions or between zones of Ceph, conditions
// compare with one copy only. All processes of a fleet must use one bucket in one region, through
// one endpoint.
//
// HAZARD: a restore of objects from a backup or from old versions sets bounds back, so IDs may
// repeat. Stop all holders before you restore. Start holders again only when the clock is past the
// last bound, a window after the last holder stopped.
//
// HAZARD: a lifecycle rule that expires objects removes the records of live holders, too. The
// prefix must have no such rule. (A rule for noncurrent versions does no harm. If the bucket has
// versioning, it needs one: each renewal leaves an old version, 65,000 for each holder in 30 days,
// which are stored and billed.)
//
// HAZARD: all processes of a fleet must use one bucket and one prefix. If they use two, two
// processes have the same worker ID.
//
// S3 refuses requests if a clock is wrong by more than 15 minutes (RequestTimeTooSkewed).
package s3lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/seed-5394e6b1/snowflake/internal/idle"
	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// DefaultWindow is the window of leases whose Options.Window is 0. It is the longest window,
// because each renewal costs money.
const DefaultWindow = driver.MaxWindow

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Prefix is the prefix of all keys. All processes that share worker IDs must have the same
	// Prefix. If it does not end with a slash, a slash is added. The default is "snowflake/".
	Prefix string

	// PathStyle puts the bucket's name into the path of URLs instead of the host name. Most
	// self-hosted services need it. Their endpoint is the config's BaseEndpoint, or the variable
	// AWS_ENDPOINT_URL_S3.
	PathStyle bool

	// ConditionalDelete makes Delete delete the object, with If-Match. Amazon S3 has obeyed this
	// condition since September 2025. If the service ignores it, or compares and deletes in two
	// steps, a new record may be lost.
	ConditionalDelete bool
}

// Store is a [driver.Store] in a bucket. It may be used by any number of goroutines and leases.
type Store struct {
	client            *s3.Client
	bucket, prefix    string
	conditionalDelete bool
	obeysNone         atomic.Bool // the service has refused If-None-Match: *
	obeysMatch        atomic.Bool // the service has refused If-Match
}

var _ driver.Windower = (*Store)(nil)

// New returns a store in a bucket. It sends no request. If the bucket's name is empty, or if the
// config has no region or no credentials, the error matches [driver.ErrInvalidOptions].
//
// The store does not retry requests, whatever the config says, because a retried Put would fail
// although it was stored; package lease retries. If the HTTP client is the SDK's, the store uses
// HTTP/1.1, so that a connection that hangs is closed with its request. After a request that timed
// out, the client's idle connections are not used again.
//
// The store's errors name the object. An error matches [driver.ErrBadRecord] if Put cannot have
// written the object, and [driver.ErrAway] if the status is 429, 500, or 502 or more, or if S3 asks
// to retry the request.
func New(cfg aws.Config, bucket string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, new(Options))
	invalid := func(reason string) error { return fmt.Errorf("s3lease: %w: %s", driver.ErrInvalidOptions, reason) }
	switch {
	case bucket == "":
		return nil, invalid("the bucket's name is empty")
	case cfg.Region == "":
		return nil, invalid("the config has no region: set AWS_REGION")
	case cfg.Credentials == nil:
		return nil, invalid("the config has no credentials")
	}
	client := s3.NewFromConfig(cfg, func(c *s3.Options) {
		c.UsePathStyle = o.PathStyle
		c.Retryer = aws.NopRetryer{}
		// Other services do not support the new checksums.
		c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		sdks, ok := c.HTTPClient.(*awshttp.BuildableClient)
		if !ok {
			c.HTTPClient = idle.Closing(c.HTTPClient)
			return
		}
		sdks = sdks.WithTransportOptions(func(t *http.Transport) {
			t.Protocols = new(http.Protocols)
			t.Protocols.SetHTTP1(true)
		})
		// The SDK's client has no way to close idle connections.
		c.HTTPClient = idle.Renewing(func() idle.Client { return sdks.Freeze() })
	})
	return &Store{client: client, bucket: bucket, prefix: strings.TrimSuffix(cmp.Or(o.Prefix, "snowflake"), "/") + "/",
		conditionalDelete: o.ConditionalDelete}, nil
}

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// nonceLen is the length of the random text at the beginning of an object. An object without
// anything else counts as no entry.
const nonceLen = randtext.Len

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	e, _, err := s.get(ctx, key)
	return e, err
}

// get also returns the ETag of an object that counts as no entry.
func (s *Store) get(ctx context.Context, key string) (e driver.Entry, deleted string, err error) {
	e.Key = key
	if err := ctx.Err(); err != nil {
		return e, "", err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key)})
	if code(err) == "NoSuchKey" {
		return e, "", nil
	}
	if err != nil {
		return e, "", s.explain(key, err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		return e, "", s.explain(key, err)
	}
	nonce, value, hasValue := strings.Cut(string(body), " ")
	etag := aws.ToString(out.ETag)
	switch {
	case len(nonce) != nonceLen || etag == "":
		e.Version = etag
		return e, "", fmt.Errorf("s3lease: %s: %w: the object does not begin with a random text and a space, or has no ETag",
			s.place(key), driver.ErrBadRecord)
	case !hasValue:
		return e, etag, nil
	}
	return driver.Entry{Key: key, Version: etag, Value: []byte(value)}, "", nil
}

// concurrency is the number of objects that List reads concurrently.
const concurrency = 32

// List implements [driver.Store]. Services list only keys, so List reads each object.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var keys []string
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.prefix + prefix)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.explain(prefix, err)
		}
		for _, o := range page.Contents {
			key := strings.TrimPrefix(aws.ToString(o.Key), s.prefix)
			// Versitygw lists temporary names that begin with a dot.
			if aws.ToInt64(o.Size) != nonceLen && !strings.Contains("/"+key, "/.") {
				keys = append(keys, key)
			}
		}
	}
	var readers sync.WaitGroup
	var next atomic.Int64
	entries, errs := make([]driver.Entry, len(keys)), make([]error, min(len(keys), concurrency))
	for r := range errs {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for i := int(next.Add(1)) - 1; i < len(keys) && errs[r] == nil; i = int(next.Add(1)) - 1 {
				entries[i], errs[r] = s.Get(ctx, keys[i])
				if errors.Is(errs[r], driver.ErrBadRecord) {
					entries[i].Version, errs[r] = cmp.Or(entries[i].Version, "unreadable"), nil
				}
			}
		}()
	}
	readers.Wait()
	all := entries[:0]
	for _, e := range entries {
		if e.Version != "" { // unless the entry was deleted after the list
			all = append(all, e)
		}
	}
	return all, errors.Join(errs...)
}

// Put implements [driver.Store].
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	e := driver.Entry{Key: key, Value: value}
	body := randtext.New() + " " + string(value)
	var err error
	if e.Version, err = s.put(ctx, key, old, body); old == "" && errors.Is(err, driver.ErrConflict) {
		is, deleted, readErr := s.get(ctx, key)
		switch {
		case readErr != nil && is.Version == "":
			err = readErr // with a version, the entry exists but cannot be read: a conflict
		case deleted != "":
			e.Version, err = s.put(ctx, key, deleted, body)
		}
	}
	return e, err
}

// put stores body if the object's ETag is old, or if there is no object and old is empty.
func (s *Store) put(ctx context.Context, key, old, body string) (etag string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key), IfMatch: &old}
	obeys := &s.obeysMatch
	if old == "" {
		in.IfMatch, in.IfNoneMatch, obeys = nil, aws.String("*"), &s.obeysNone
	}
	in.Body = strings.NewReader(body)
	out, err := s.client.PutObject(ctx, in)
	if err != nil {
		if isRefusal(err) {
			obeys.Store(true)
		}
		return "", s.explain(key, err)
	}
	if etag = aws.ToString(out.ETag); etag == "" {
		return "", fmt.Errorf("s3lease: %s: the service's answer has no ETag", s.place(key))
	}
	if obeys.Load() {
		return etag, nil
	}
	// The service must refuse the same request now.
	in.Body = strings.NewReader(body)
	if _, err = s.client.PutObject(ctx, in); err == nil {
		return "", fmt.Errorf("s3lease: %s: %w: the service ignores If-Match or If-None-Match in PutObject, "+
			"so it cannot be used for leases", s.place(key), errors.ErrUnsupported)
	}
	if isRefusal(err) {
		obeys.Store(true)
	}
	return etag, nil
}

// Delete implements [driver.Store].
func (s *Store) Delete(ctx context.Context, key, old string) error {
	switch {
	case old == "":
		return fmt.Errorf("s3lease: %s: %w", s.place(key), driver.ErrConflict)
	case !s.conditionalDelete:
		_, err := s.put(ctx, key, old, randtext.New())
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key), IfMatch: &old})
	return s.explain(key, err)
}

// code returns the service's error code.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// isRefusal reports whether the request's condition is not met. If there is no object to compare
// If-Match with, services answer 404.
func isRefusal(err error) bool {
	return code(err) == "PreconditionFailed" || code(err) == "NoSuchKey"
}

func (s *Store) place(key string) string { return "s3://" + s.bucket + "/" + s.prefix + key }

// explain adds the object and, for common errors, advice to an error, and makes it match an error
// of package driver.
func (s *Store) explain(key string, err error) error {
	if err == nil {
		return nil
	}
	if isRefusal(err) {
		return fmt.Errorf("s3lease: %s: %w", s.place(key), driver.ErrConflict)
	}
	advice, answer := "", new(awshttp.ResponseError)
	switch code(err) {
	case "NoSuchBucket":
		advice = ": make the bucket first, in the region of the config"
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case "AccessDenied":
		advice = ": the process needs s3:GetObject and s3:PutObject on " + s.place("*") + ", and s3:ListBucket on the bucket"
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch":
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case "ConditionalRequestConflict", "OperationAborted", "RequestTimeout":
		// Another request for the object is in progress, or this one arrived too slowly (400).
		// Nothing was stored.
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	default:
		if errors.As(err, &answer) {
			if is := answer.HTTPStatusCode(); is == http.StatusTooManyRequests || is >= 500 && is != http.StatusNotImplemented {
				err = fmt.Errorf("%w: %w", driver.ErrAway, err)
			}
		}
	}
	return fmt.Errorf("s3lease: %s: %w%s", s.place(key), err, advice)
}
