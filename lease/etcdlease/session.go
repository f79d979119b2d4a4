package etcdlease

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// streams are the keep-alive streams that are not in use. Each Save has a stream to itself,
// so that it does not wait for the answer to another Save. Streams are kept, because the
// client authenticates with its password for each new stream, which takes the server tens
// of milliseconds.
type streams struct {
	mu   sync.Mutex
	idle []*stream
}

// maxIdle is how many streams are kept.
const maxIdle = 8

type stream struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

var waitForReady = grpc.WaitForReady(true)

// keepAlive restarts the session's time-out.
func (s *Store) keepAlive(ctx context.Context, id clientv3.LeaseID) error {
	for {
		st := s.take()
		if st == nil {
			break
		}
		if err := s.ask(ctx, st, id); err == nil || err == rpctypes.ErrLeaseNotFound || ctx.Err() != nil {
			return err
		} // it ended meanwhile, with its connection
	}
	life, cancel := context.WithCancel(s.client.Ctx())
	st := &stream{cancel: cancel}
	defer context.AfterFunc(ctx, cancel)()
	var err error
	st.Lease_LeaseKeepAliveClient, err = s.leases.LeaseKeepAlive(life, waitForReady)
	if err != nil {
		cancel()
		return err
	}
	return s.ask(ctx, st, id)
}

func (s *Store) ask(ctx context.Context, st *stream, id clientv3.LeaseID) error {
	stop := context.AfterFunc(ctx, st.cancel)
	err := st.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
	var resp *pb.LeaseKeepAliveResponse
	if err == nil {
		resp, err = st.Recv()
	}
	if err != nil || !stop() {
		st.cancel()
		return rpctypes.Error(err)
	}
	s.put(st)
	if resp.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}

func (s *streams) take() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return nil
	}
	st := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return st
}

func (s *streams) put(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) >= maxIdle {
		st.cancel()
		return
	}
	s.idle = append(s.idle, st)
}
