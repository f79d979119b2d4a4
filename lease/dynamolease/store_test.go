//go:build unix && go1.25

package dynamolease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/dynamolease"
)

func TestErrorsHaveARemedy(t *testing.T) {
	const body = `{"__type":"com.amazonaws.dynamodb.v20120810#CODE"}`
	servertest.Refusals(t, "dynamolease: table workers, item snowflake key", body, func(f servertest.RoundTrip) (lease.Store, error) {
		cfg := configOf("127.0.0.1:1")
		cfg.RetryMaxAttempts, cfg.HTTPClient = 5, f
		return dynamolease.New(cfg, table, nil)
	}, []servertest.Refusal{
		{Status: 400, Code: "ResourceNotFoundException", Says: "create the table first"},
		{Status: 400, Code: "AccessDeniedException", Final: true,
			Says: "dynamodb:GetItem, dynamodb:PutItem, dynamodb:DeleteItem and dynamodb:Query"},
		{Status: 400, Code: "UnrecognizedClientException", Final: true, Says: "UnrecognizedClient"},
		{Status: 400, Code: "ProvisionedThroughputExceededException", Away: true, Says: "Throughput"},
		{Status: 400, Code: "ThrottlingException", Away: true, Says: "Throttling"},
		{Status: 400, Code: "RequestLimitExceeded", Away: true, Says: "RequestLimit"},
		{Status: 500, Code: "InternalServerError", Away: true, Says: "InternalServerError"},
		{Status: 503, Code: "ServiceUnavailable", Away: true, Says: "ServiceUnavailable"},
	})
}

// After throttling, List continues with the refused page. If it started again, all pages would
// count again, and a list of more pages than the limit would not end.
func TestThrottledListContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, limit = 30, 12 // pages of 1 MB, of which a partition gives 12 a second
		sent, second, inSecond := 0, time.Now(), 0
		cfg := configOf("127.0.0.1:1")
		cfg.HTTPClient = servertest.RoundTrip(func(req *http.Request) (*http.Response, error) {
			if time.Since(second) >= time.Second {
				second, inSecond = time.Now(), 0
			}
			status, answer := 200, ""
			if inSecond++; inSecond > limit {
				status, answer = 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}`
			} else {
				var page struct{ ExclusiveStartKey map[string]map[string]string }
				if err := json.NewDecoder(req.Body).Decode(&page); err != nil {
					return nil, err
				}
				n, _ := strconv.Atoi(page.ExclusiveStartKey["key"]["S"]) // the first page has none
				sent++
				answer = fmt.Sprintf(`{"Items":[{"key":{"S":"%d"},"version":{"S":"v"},"value":{"S":""}}]`, n+1)
				if n+1 < pages {
					answer += fmt.Sprintf(`,"LastEvaluatedKey":{"store":{"S":"s"},"key":{"S":"%d"}}`, n+1)
				}
				answer += "}"
			}
			return servertest.Answer(req, status, nil, answer), nil
		})
		s := servertest.Must(dynamolease.New(cfg, table, nil))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		all, err := s.List(ctx, "")
		require.NoError(t, err, "after %d pages", sent)
		require.Len(t, all, pages)
		assert.Equal(t, pages, sent)
	})
}

// Each read asks for strong consistency. (Dynalite is always consistent.)
func TestReadsAreConsistent(t *testing.T) {
	cfg := configOf("127.0.0.1:1")
	var sent []string
	cfg.HTTPClient = servertest.RoundTrip(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		sent = append(sent, string(body))
		return servertest.Answer(req, 200, nil, `{}`), err
	})
	s := servertest.Must(dynamolease.New(cfg, table, nil))(t)
	servertest.Must(s.Get(t.Context(), "key"))(t)
	servertest.Must(s.List(t.Context(), "key"))(t)
	require.Len(t, sent, 2)
	for _, body := range sent {
		assert.Contains(t, body, `"ConsistentRead":true`)
	}
}

// An item of another program is changed only with its version.
func TestForeignItemIsNotChanged(t *testing.T) {
	t.Parallel()
	s, space := shared(t), servertest.NewSpace()
	foreign := primary(space, "key")
	foreign["value"] = &types.AttributeValueMemberN{Value: "7"}
	foreign["version"] = &types.AttributeValueMemberS{}
	servertest.Must(s.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: foreign}))(t)
	store := servertest.Client(t, s.addr, space)
	_, err := store.Put(t.Context(), "key", "", nil)
	assert.ErrorIs(t, err, lease.ErrConflict)
	assert.ErrorIs(t, store.Delete(t.Context(), "key", ""), lease.ErrConflict)
	before, err := store.Get(t.Context(), "key")
	assert.ErrorIs(t, err, lease.ErrBadRecord)

	foreign["value"] = &types.AttributeValueMemberN{Value: "8"}
	servertest.Must(s.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: foreign}))(t)
	_, err = store.Put(t.Context(), "key", before.Version, nil)
	assert.ErrorIs(t, err, lease.ErrConflict)
	after, err := store.Get(t.Context(), "key")
	assert.ErrorIs(t, err, lease.ErrBadRecord)
	servertest.Put(t, store, "key", after.Version, "value")
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	noRegion, noCredentials := configOf("h"), configOf("h")
	noRegion.Region, noCredentials.Credentials = "", nil
	for _, test := range []struct {
		cfg   aws.Config
		table string
		says  string
	}{
		{configOf("h"), "", "the table's name is empty"},
		{noRegion, "t", "no region"},
		{noCredentials, "t", "no credentials"},
	} {
		s, err := dynamolease.New(test.cfg, test.table, nil)
		require.ErrorIs(t, err, lease.ErrInvalidOptions)
		require.Nil(t, s)
		assert.ErrorContains(t, err, test.says)
	}
}
