// Package proto_test holds the .proto files to the rules by which other languages' generators make
// good code.
package proto_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

var (
	camel = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	snake = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

func TestFileFollowsItsPackage(t *testing.T) {
	file := pb.File_snowflake_v1_snowflake_proto
	if dir := strings.ReplaceAll(string(file.Package()), ".", "/"); path.Dir(file.Path()) != dir || !regexp.MustCompile(`\.v[0-9]+$`).MatchString(string(file.Package())) {
		t.Errorf("%s has the package %s", file.Path(), file.Package())
	}
}

func TestNames(t *testing.T) {
	file := pb.File_snowflake_v1_snowflake_proto
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		if !camel.MatchString(string(m.Name())) {
			t.Errorf("the message %s", m.Name())
		}
		for j := range m.Fields().Len() {
			if f := m.Fields().Get(j); !snake.MatchString(string(f.Name())) || f.Number() != protoreflect.FieldNumber(j+1) {
				t.Errorf("%s.%s has the number %d", m.Name(), f.Name(), f.Number())
			}
		}
	}
	for i := range file.Services().Len() {
		s := file.Services().Get(i)
		if !strings.HasSuffix(string(s.Name()), "Service") {
			t.Errorf("the service %s", s.Name())
		}
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			if !camel.MatchString(string(m.Name())) || m.Input().Name() != m.Name()+"Request" || m.Output().Name() != m.Name()+"Response" {
				t.Errorf("the method %s takes %s and returns %s", m.Name(), m.Input().Name(), m.Output().Name())
			}
		}
	}
}

// An ID has 8 bytes on the wire, packed if there are many, and is a string in JSON.
func TestIDsAreFixed(t *testing.T) {
	messages := pb.File_snowflake_v1_snowflake_proto.Messages()
	for i := range messages.Len() {
		for _, name := range []protoreflect.Name{"id", "ids", "lo", "hi"} {
			if f := messages.Get(i).Fields().ByName(name); f != nil && (f.Kind() != protoreflect.Sfixed64Kind || f.IsList() != f.IsPacked()) {
				t.Errorf("%s.%s is %v", messages.Get(i).Name(), name, f.Kind())
			}
		}
	}
}

func TestEverythingHasAComment(t *testing.T) {
	b, err := os.ReadFile("snowflake/v1/snowflake.proto")
	require.NoError(t, err)
	before := ""
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		for _, word := range []string{"service ", "rpc ", "message "} {
			if strings.HasPrefix(line, word) && !strings.HasPrefix(before, "//") {
				t.Errorf("%s has no comment", line)
			}
		}
		before = line
	}
}
