// Package dynamolease leases worker IDs from a table of Amazon DynamoDB. There is no server to run.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	...
//	store, err := dynamolease.New(cfg, "snowflake", nil)
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// # The table
//
// The table has the partition key "store" and the sort key "key", both of type S, and no other
// index. Several fleets can share a table if each has its own Options.Store. To create the table:
//
//	aws dynamodb create-table --table-name snowflake --billing-mode PAY_PER_REQUEST \
//	    --deletion-protection-enabled --attribute-definitions \
//	    AttributeName=store,AttributeType=S AttributeName=key,AttributeType=S \
//	    --key-schema AttributeName=store,KeyType=HASH AttributeName=key,KeyType=RANGE
//
// A process needs these rights:
//
//	{
//	  "Version": "2012-10-17",
//	  "Statement": [{
//	    "Effect": "Allow",
//	    "Action": ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:Query"],
//	    "Resource": "arn:aws:dynamodb:eu-central-1:111122223333:table/snowflake",
//	    "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["snowflake"]}}
//	  }]
//	}
//
// # Storage
//
// An entry is an item with the attributes store, key, version (a random text) and value. A renewal
// is one PutItem with a condition on the version. Reads are strongly consistent.
//
// All items of a store are in one partition. DynamoDB limits a partition to 1,000 write units a
// second: with [DefaultWindow], 13,000 holders with records of 2 to 3 kB. It also limits it to
// 3,000 read units a second, each for 4 kB: 6,000 records of 2 kB. A start that finds no free
// worker ID in 28 tries reads all records, so keep half of the worker IDs free.
//
// # Costs
//
// Each holder sends three requests in a window, and a start about ten. With [DefaultWindow], 1,000
// holders send 25 writes a second, 64.8 million in 30 days. At Amazon's list price for on-demand
// tables in us-east-1 (0.625 dollars for a million write request units, each for up to 1 kB; since
// November 2024) they cost 41 dollars while worker IDs are new, and 122 dollars later: a record has
// 0.5 kB, and 0.2 kB more for each of its last eight holders. With provisioned capacity (0.00065
// dollars for a unit and hour) they cost 12 to 35 dollars.
//
// With a window of 2 minutes, holders survive an outage of 80 s. The worker ID of a crashed process
// stays unused for 2 minutes.
//
// # Hazards
//
// HAZARD: Time to Live (TTL) must be off. If it is on, DynamoDB may delete the records of live
// holders, and the entries by which a lost record is noticed.
//
// HAZARD: in a global table, the last writer wins, and a condition compares with one region's copy
// only. So two regions can have the same worker ID. Use a table of one region. (According to its
// documentation, a global table with multi-Region strong consistency compares in all regions. This
// is not tested.)
//
// HAZARD: a restore from a backup restores the backup's bounds, so IDs may repeat. Stop all holders
// before you restore. Start holders again only when the clock is past the last bound, a window
// after the last holder stopped.
//
// HAZARD: all processes of a fleet must use one table and one Options.Store. If they use two, two
// processes have the same worker ID.
//
// The tests use dynalite. Of a hundred writers of one item exactly one won, in each of 100 rounds.
// DynamoDB itself was not tested.
package dynamolease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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
	// Store is the value of the partition key. All processes that share worker IDs must have the
	// same Store. The default is "snowflake".
	Store string
}

// Store is a [driver.Store] in a table. It may be used by any number of goroutines and leases.
type Store struct {
	client       *dynamodb.Client
	table, store string
}

var _ driver.Windower = (*Store)(nil)

// New returns a store in a table. It sends no request. If the table's name is empty, or if the
// config has no region or no credentials, the error matches [driver.ErrInvalidOptions].
//
// The store does not retry requests, whatever the config says, because a retried Put would fail
// although it was stored; package lease retries. If the HTTP client is the SDK's, the store uses
// HTTP/1.1, so that a connection that hangs is closed with its request. After a request that timed
// out, the client's idle connections are not used again.
//
// The store's errors name the item. An error matches [driver.ErrBadRecord] if Put cannot have
// written the item, and [driver.ErrAway] if DynamoDB throttles or has an internal error.
func New(cfg aws.Config, table string, opts *Options) (*Store, error) {
	s := &Store{table: table, store: cmp.Or(cmp.Or(opts, new(Options)).Store, "snowflake")}
	invalid := func(reason string) error {
		return fmt.Errorf("dynamolease: %w: %s", driver.ErrInvalidOptions, reason)
	}
	switch {
	case table == "":
		return nil, invalid("the table's name is empty")
	case cfg.Region == "":
		return nil, invalid("the config has no region: set AWS_REGION")
	case cfg.Credentials == nil:
		return nil, invalid("the config has no credentials")
	}
	s.client = dynamodb.NewFromConfig(cfg, func(c *dynamodb.Options) {
		c.Retryer = aws.NopRetryer{}
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
	return s, nil
}

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// item is an item's attributes, or some of them.
type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// primary returns the primary key of an entry.
func (s *Store) primary(key string) item { return item{"store": text(s.store), "key": text(key)} }

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	i, err := s.get(ctx, key)
	if err != nil || i == nil {
		return driver.Entry{Key: key}, err
	}
	return s.entry(i)
}

// get returns the item of key, or nil if there is none.
func (s *Store) get(ctx context.Context, key string) (item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: s.primary(key), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, s.explain(key, err)
	}
	return out.Item, nil
}

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) (all []driver.Entry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in := &dynamodb.QueryInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#store = :store"),
		ExpressionAttributeNames:  map[string]string{"#store": "store"},
		ExpressionAttributeValues: item{":store": text(s.store)},
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String("#store = :store AND begins_with(#key, :prefix)")
		in.ExpressionAttributeNames["#key"] = "key"
		in.ExpressionAttributeValues[":prefix"] = text(prefix)
	}
	for pages := dynamodb.NewQueryPaginator(s.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		// Retry only this page: a new list would be throttled, too.
		if isThrottled(err) && len(all) > 0 && ctx.Err() == nil {
			select {
			case <-time.After(throttlePause):
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			return nil, s.explain(prefix, err)
		}
		for _, i := range page.Items {
			e, _ := s.entry(i) // include unreadable entries
			all = append(all, e)
		}
	}
	return all, nil
}

// throttlePause is the pause before List retries a page that DynamoDB throttled. A partition's
// limit of reads is one for each second.
const throttlePause = 200 * time.Millisecond

// isThrottled reports whether DynamoDB throttled a request.
func isThrottled(err error) bool {
	switch code(err) {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return true
	}
	return false
}

// code returns DynamoDB's error code.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// unreadable is the prefix of the version of an entry that cannot be read. The rest is the CRC-32
// of the item's version and value.
const unreadable = "unreadable-"

// entry returns the entry of an item. If the entry cannot be read, it has no value, and the error
// matches driver.ErrBadRecord.
func (s *Store) entry(i item) (driver.Entry, error) {
	get := func(name string) (string, bool) {
		v, ok := i[name].(*types.AttributeValueMemberS)
		if !ok {
			return "", false
		}
		return v.Value, true
	}
	key, _ := get("key")
	version, ok1 := get("version")
	value, ok2 := get("value")
	if !ok1 || !ok2 || version == "" {
		// Marshal does not fail on texts, numbers and the like.
		content, _ := json.Marshal([]any{i["version"], i["value"]})
		return driver.Entry{Key: key, Version: fmt.Sprintf("%s%08x", unreadable, crc32.ChecksumIEEE(content))},
			fmt.Errorf("dynamolease: %s: %w: the item has no version or no value of type S", s.place(key), driver.ErrBadRecord)
	}
	return driver.Entry{Key: key, Version: version, Value: []byte(value)}, nil
}

// Put implements [driver.Store].
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	if err := ctx.Err(); err != nil {
		return driver.Entry{}, err
	}
	e := driver.Entry{Key: key, Version: randtext.New(), Value: value}
	in := &dynamodb.PutItemInput{TableName: &s.table, Item: s.primary(key)}
	in.Item["version"], in.Item["value"] = text(e.Version), text(string(value))
	if old == "" {
		in.ConditionExpression, in.ExpressionAttributeNames = aws.String("attribute_not_exists(#is)"), map[string]string{"#is": "store"}
	} else {
		var err error
		if in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, err = s.has(ctx, key, old); err != nil {
			return driver.Entry{}, err
		}
	}
	_, err := s.client.PutItem(ctx, in)
	return e, s.explain(key, err)
}

// Delete implements [driver.Store].
func (s *Store) Delete(ctx context.Context, key, old string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if old == "" {
		return s.conflict(key)
	}
	in := &dynamodb.DeleteItemInput{TableName: &s.table, Key: s.primary(key)}
	var err error
	if in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues, err = s.has(ctx, key, old); err != nil {
		return err
	}
	_, err = s.client.DeleteItem(ctx, in)
	return s.explain(key, err)
}

// has returns the condition that the entry's version is old. For the version of an unreadable
// entry, it reads the item again, and the condition is that the item stays the same.
func (s *Store) has(ctx context.Context, key, old string) (condition *string, names map[string]string, values item, err error) {
	if !strings.HasPrefix(old, unreadable) {
		return aws.String("#version = :version"), map[string]string{"#version": "version"}, item{":version": text(old)}, nil
	}
	i, err := s.get(ctx, key)
	if err != nil {
		return nil, nil, nil, err
	}
	if e, bad := s.entry(i); i == nil || bad == nil || e.Version != old {
		return nil, nil, nil, s.conflict(key)
	}
	terms := []string{"attribute_exists(#store)"}
	names = map[string]string{"#store": "store"}
	for _, name := range []string{"version", "value"} {
		names["#"+name] = name
		is, ok := i[name]
		if !ok {
			terms = append(terms, "attribute_not_exists(#"+name+")")
			continue
		}
		if values == nil {
			values = item{}
		}
		values[":"+name] = is
		terms = append(terms, "#"+name+" = :"+name)
	}
	return aws.String(strings.Join(terms, " AND ")), names, values, nil
}

func (s *Store) conflict(key string) error {
	return fmt.Errorf("dynamolease: %s: %w", s.place(key), driver.ErrConflict)
}

func (s *Store) place(key string) string {
	return "table " + s.table + ", item " + s.store + " " + key
}

// explain adds the item and, for common errors, advice to an error, and makes it match an error of
// package driver.
func (s *Store) explain(key string, err error) error {
	if err == nil {
		return nil
	}
	advice, code, answer := "", code(err), new(awshttp.ResponseError)
	switch {
	case code == "ConditionalCheckFailedException":
		return s.conflict(key)
	case code == "ResourceNotFoundException":
		advice = ": create the table first, in the region of the config, with the partition key store and the sort key key, both of type S"
	case code == "AccessDeniedException":
		advice = ": the process needs dynamodb:GetItem, dynamodb:PutItem, dynamodb:DeleteItem and dynamodb:Query on the table"
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case code == "UnrecognizedClientException", code == "InvalidSignatureException", code == "IncompleteSignatureException":
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case isThrottled(err), errors.As(err, &answer) && answer.HTTPStatusCode() >= 500:
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	}
	return fmt.Errorf("dynamolease: %s: %w%s", s.place(key), err, advice)
}
