//go:build unix

package dynamolease_test

import (
	"context"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/dynamolease"
)

const table = "workers"

// configOf returns the config of a process that uses a server.
func configOf(addr string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://" + addr),
		Credentials: credentials.NewStaticCredentialsProvider(servertest.AccessKey, servertest.Secret, ""),
	}
}

// open opens a store with a new client.
func open(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	s, err := dynamolease.New(configOf(addr), table, &dynamolease.Options{Store: space})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMain(m *testing.M) {
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		return dynamolease.New(configOf(addr), table, &dynamolease.Options{Store: space})
	}))
}

// service is a server with a table.
type service struct {
	*servertest.Process
	addr, dir string
	*dynamodb.Client
}

func start(t testing.TB) *service {
	t.Helper()
	addr, dir, p := servertest.Dynalite(t)
	servertest.CreateTable(t, addr, table)
	return &service{p, addr, dir, dynamodb.NewFromConfig(configOf(addr))}
}

func primary(space, key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"store": &types.AttributeValueMemberS{Value: space},
		"key":   &types.AttributeValueMemberS{Value: key},
	}
}

// wipe deletes a store's items.
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
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			key := map[string]types.AttributeValue{"store": i["store"], "key": i["key"]}
			if _, err := s.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: key}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func server(t testing.TB) *servertest.Server {
	s := start(t)
	return &servertest.Server{
		Addr: s.addr, Fleet: dynamolease.DefaultWindow, Open: open,
		Wipes: map[string]func(testing.TB, string){"Delete": s.wipe},
		Kill:  s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume, CPU: s.CPU,
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Run(t, server(t))
}

func TestServerThatLosesItsTable(t *testing.T) {
	depth.Parallel(t)
	s := start(t)
	servertest.Wiped(t, &servertest.Server{Addr: s.addr, Open: open}, func(t testing.TB, _ string) {
		s.LoseDisk(s.dir)
		servertest.CreateTable(t, s.addr, table)
	})
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }

func BenchmarkStarts(b *testing.B) { servertest.Starts(b, server(b)) }

// shared returns a server for the tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) *service { return start(t) })
