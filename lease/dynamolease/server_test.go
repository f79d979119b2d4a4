//go:build unix && go1.25

package dynamolease_test

import (
	"context"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/dynamolease"
)

const table = "workers"

// configOf returns the config for a server.
func configOf(addr string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://" + addr),
		Credentials: credentials.NewStaticCredentialsProvider(servertest.AccessKey, servertest.Secret, ""),
	}
}

func TestMain(m *testing.M) {
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, func() error, error) {
		s, err := dynamolease.New(configOf(addr), table, &dynamolease.Options{Store: space})
		return s, nil, err
	}))
}

// service is a server with a table.
type service struct {
	*servertest.Process
	addr string
	*dynamodb.Client
}

func start(t testing.TB) *service {
	t.Helper()
	addr, p := servertest.Dynalite(t)
	servertest.CreateTable(t, addr, table)
	return &service{p, addr, dynamodb.NewFromConfig(configOf(addr))}
}

func primary(space, key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"store": &types.AttributeValueMemberS{Value: space},
		"key":   &types.AttributeValueMemberS{Value: key},
	}
}

// wipe deletes all items of a store.
func (s *service) wipe(t testing.TB, space string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	pages := dynamodb.NewQueryPaginator(s, &dynamodb.QueryInput{
		TableName: aws.String(table), ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("#store = :store"),
		ExpressionAttributeNames:  map[string]string{"#store": "store"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":store": primary(space, "")["store"]},
	})
	for pages.HasMorePages() {
		page := servertest.Must(pages.NextPage(ctx))(t)
		for _, i := range page.Items {
			key := map[string]types.AttributeValue{"store": i["store"], "key": i["key"]}
			servertest.Must(s.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: key}))(t)
		}
	}
}

// suite returns the service for the suites.
func (s *service) suite() *servertest.Server {
	return &servertest.Server{
		Process: s.Process, Addr: s.addr, Fleet: dynamolease.DefaultWindow,
		Wipes: map[string]func(testing.TB, string){"Delete": s.wipe},
		Garble: func(t testing.TB, space, key string) {
			servertest.Must(s.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: primary(space, key)}))(t)
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := shared(t).suite()
	servertest.Store(t, s)
	servertest.Calm(t, s)
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Faults(t, start(t).suite())
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, start(b).suite()) }

func BenchmarkStarts(b *testing.B) { servertest.Starts(b, start(b).suite()) }

// shared returns a server for tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) *service { return start(t) })

func TestIdleConnectionsThatAreHalfOpenAreClosed(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, start(t).addr)
	servertest.HalfOpenPool(t, proxy, servertest.Client(t, proxy.Addr(), "space"), nil)
}
