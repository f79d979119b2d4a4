//go:build unix && go1.25

package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// answers returns a function that returns nil if the store answers.
func answers(url string) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		store, closeStore, err := Open(ctx, url)
		if err != nil {
			return err
		}
		defer closeStore()
		_, err = store.Get(ctx, "a")
		return err
	}
}

func TestMySQLIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	init := filepath.Join(servertest.Dir(t, "mysql"), "init.sql")
	require.NoError(t, os.WriteFile(init, []byte(
		"CREATE DATABASE app;\nCREATE USER app IDENTIFIED BY 'p@s/?s';\nGRANT ALL ON app.* TO app;\n"), 0o644))
	url := func(addr string) string { return "mysql://app:p%40s%2F%3Fs@" + addr + "/app?table=orders&timeout=1s" }
	addr, _ := servertest.MariaDB(t, func(addr string) error { return answers(url(addr))() }, "--init-file="+init)
	isStore(t, url(addr))
}

func TestZooKeeperIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	dir, port := servertest.Dir(t, ""), servertest.Port(t)
	jar := servertest.Program(t, "zookeeper", "/usr/share/java/zookeeper.jar")
	config := filepath.Join(dir, "zoo.cfg")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=100\n"+
		"maxSessionTimeout=60000\nadmin.enableServer=false\n", dir, port), 0o600))
	host := fmt.Sprint("127.0.0.1:", port)
	url := "zk://app:p%40s%2F%3Fs@" + host + "/orders?session=60s"
	servertest.Start(t, servertest.Command{Path: servertest.Program(t, "zookeeper", "java"), Dir: dir, Args: []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-cp", jar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config}}, answers(url))
	isStore(t, url)

	store, closeStore, err := Open(t.Context(), "zk://"+host+"/orders")
	require.NoError(t, err)
	defer closeStore()
	_, err = store.Get(t.Context(), "a")
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

// setAWS sets the variables of the AWS SDK, and nothing else counts.
func setAWS(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": servertest.AccessKey, "AWS_SECRET_ACCESS_KEY": servertest.Secret, "AWS_REGION": "us-east-1",
		"AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none",
	} {
		t.Setenv(name, value)
	}
}

func TestS3IsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	setAWS(t)
	addr, dir, _ := servertest.S3(t, "workers")
	isStore(t, "s3://workers/a/b?path_style=true&region=us-east-1&endpoint=http://"+addr)
	_, err := os.Stat(filepath.Join(dir, "a", "b", "worker", "0"))
	require.NoError(t, err)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+addr)
	isStore(t, "s3://workers?path_style=1&conditional_delete=true")
}

func TestDynamoDBIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	setAWS(t)
	addr, _ := servertest.Dynalite(t)
	servertest.CreateTable(t, addr, "workers")
	isStore(t, "dynamodb://workers/orders?endpoint=http://"+addr)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://"+addr)
	isStore(t, "dynamodb://workers")
}
