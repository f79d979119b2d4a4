package zklease

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair returns a connection that Dial made, and the server's end of it.
func pair(t *testing.T, timeout time.Duration) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err = Dial("tcp", l.Addr().String(), timeout)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	return client, server
}

func TestDialGivesUpServerThatDoesNotAnswer(t *testing.T) {
	client, _ := pair(t, 50*time.Millisecond)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Hour)))
	_, err := client.Write([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Hour)))
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestDialGivesUpAServerWhileReading(t *testing.T) {
	client, _ := pair(t, 50*time.Millisecond)
	go func() {
		time.Sleep(20 * time.Millisecond)
		client.Write([]byte("a"))
	}()
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestDialWaitsLongerIfNoAnswerIsDue(t *testing.T) {
	const timeout = 50 * time.Millisecond
	client, server := pair(t, timeout)
	_, err := client.Write([]byte("a"))
	require.NoError(t, err)
	_, err = server.Write([]byte("b"))
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = client.Read(b)
	require.NoError(t, err)
	go func() {
		time.Sleep(4 * timeout)
		server.Write([]byte("c"))
	}()
	_, err = client.Read(b)
	require.NoError(t, err)
	require.Equal(t, "c", string(b))
}

// If the process was stopped, the time-out may be over before it reads data that came in time.
func TestDialReadsDataThatArrivedWhileStopped(t *testing.T) {
	const timeout = 20 * time.Millisecond
	client, server := pair(t, timeout)
	_, err := client.Write([]byte("a"))
	require.NoError(t, err)
	_, err = server.Write([]byte("b"))
	require.NoError(t, err)
	time.Sleep(5 * timeout)
	b := make([]byte, 1)
	_, err = client.Read(b)
	require.NoError(t, err)
	require.Equal(t, "b", string(b))
}

func TestDialKeepsAnEarlierDeadline(t *testing.T) {
	client, _ := pair(t, time.Hour)
	_, err := client.Write([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err = client.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
