//go:build linux && go1.25

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// image has the instructions of a Dockerfile.
type image struct {
	user       syscall.Credential
	env        map[string]string
	health     []string
	entrypoint []string
	stages     int
	runs       []string
}

// readDockerfile reads the instructions that the project's Dockerfile has. It knows no others.
func readDockerfile(t *testing.T) (i image) {
	t.Helper()
	i.env = map[string]string{}
	array := func(text string) (words []string) {
		if err := json.Unmarshal([]byte(text[strings.Index(text, "["):]), &words); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return words
	}
	for line := range strings.Lines(string(deployed(t, "docker/Dockerfile"))) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "", "#", "ARG", "WORKDIR", "EXPOSE":
		case "FROM":
			i.stages++
		case "RUN":
			i.runs = append(i.runs, rest)
		case "COPY":
			if want := []string{". .", "--from=build /tree /"}[i.stages-1]; rest != want {
				t.Errorf("COPY %s, not %s", rest, want)
			}
		case "STOPSIGNAL":
			if rest != "SIGTERM" {
				t.Error(line)
			}
		case "USER":
			if _, err := fmt.Sscanf(rest, "%d:%d", &i.user.Uid, &i.user.Gid); err != nil || i.user.Uid == 0 || i.user.Gid == 0 {
				t.Error(line, err)
			}
		case "ENV":
			key, value, _ := strings.Cut(rest, "=")
			i.env[key] = value
		case "HEALTHCHECK":
			i.health = array(rest)
		case "ENTRYPOINT":
			i.entrypoint = array(rest)
		default:
			t.Errorf("the test does not know %s", line)
		}
	}
	return i
}

// The image's files are made as the Dockerfile makes them. With nothing else to see and as the
// image's user, its server leases a worker ID from Redis, its health check tells whether it lives,
// and it ends on SIGTERM with status 0.
func TestImage(t *testing.T) {
	t.Parallel()
	i := readDockerfile(t)
	depth.NeedFull(t, "a build of the program without cgo")
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root may change a process's root")
		}
		t.Skip("only root may change a process's root")
	}
	require.Equal(t, []string{"GOOS=$TARGETOS GOARCH=$TARGETARCH sh deploy/docker/tree.sh /tree"}, i.runs)
	tree := t.TempDir()
	for dir := tree; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the image's user may see it
			t.Fatal(err)
		}
	}
	// go test reuses a cached result only while the files that the test looked at are unchanged.
	_, err := os.Stat("../../deploy/docker/tree.sh")
	require.NoError(t, err)
	if out, err := exec.Command("sh", "../../deploy/docker/tree.sh", tree).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	redis, _ := servertest.Redis(t)
	listen, admin := servertest.Port(t), servertest.Port(t) // the image's ports may be taken here
	i.env["SNOWFLAKED_LISTEN"] = strings.Replace(i.env["SNOWFLAKED_LISTEN"], ":8080", fmt.Sprint(":", listen), 1)
	i.env["SNOWFLAKED_ADMIN"] = strings.Replace(i.env["SNOWFLAKED_ADMIN"], ":8081", fmt.Sprint(":", admin), 1)
	i.env["SNOWFLAKED_STORE"] = "redis://" + redis
	settings(t, i.env)
	i.env["SNOWFLAKED_NEW_STORE"] = "true"
	i.env["SNOWFLAKED_DRAIN"] = "10ms"
	contained := func(args []string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = "/", []string{}
		for name, value := range i.env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: tree, Credential: &i.user}
		return cmd
	}
	if out, err := contained(i.health).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("refused")) {
		t.Errorf("before the server runs, the health check says %v, %s", err, out)
	}
	cmd := contained(i.entrypoint)
	var log servertest.Buffer
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	exit := make(chan error, 1)
	go func() { exit <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	await(t, "readiness", func() bool { return contained(append(i.health, "--ready")).Run() == nil })
	if out, err := contained(i.health).CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v, %s", err, out)
	}
	resp := servertest.Must(http.Get(fmt.Sprintf("http://127.0.0.1:%d/id", listen)))(t)
	defer resp.Body.Close()
	id, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Regexp(t, `^{"id":"\d+"}\n$`, string(id))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-exit:
		assert.NoError(t, err)
	case <-time.After(patience):
		t.Error("it does not end")
	}
	var files []string
	require.NoError(t, filepath.WalkDir(tree, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	assert.Len(t, files, 2)
}

// The program accepts the compose file's settings, and has the time to stop. The names of images
// have no registry.
func TestComposeFileFitsTheProgram(t *testing.T) {
	var c struct {
		Name     string
		Services map[string]struct {
			Image       string
			MemLimit    string `yaml:"mem_limit"`
			Logging     struct{ Options map[string]string }
			Build       struct{ Context, Dockerfile string }
			Environment map[string]string
			StopGrace   string `yaml:"stop_grace_period"`
			Command     []string
			Volumes     []string
			Ports       []string
		}
		Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal(deployed(t, "docker/compose.yaml"), &c))
	s := c.Services["snowflaked"]
	deployed(t, filepath.Join("docker", s.Build.Context, s.Build.Dockerfile))
	env := readDockerfile(t).env
	maps.Copy(env, s.Environment)
	program := settings(t, env)
	stop := servertest.Must(time.ParseDuration(s.StopGrace))(t)
	assert.Greater(t, stop, program.drain+program.grace+releaseTime)
	_, port, _ := strings.Cut(program.listen, ":")
	assert.Equal(t, []string{"127.0.0.1:8080:" + port}, s.Ports, "the ports are %q, and it listens at %s", s.Ports, program.listen)
	_, is := c.Services[strings.TrimPrefix(program.store, "redis://")]
	assert.True(t, is, "no service is %s", program.store)
	for name, s := range c.Services {
		assert.NotContains(t, s.Image, "/", "%s: the image %s names a registry", name, s.Image)
		assert.True(t, s.Build.Context != "" || regexp.MustCompile(`:\d+\.\d+\.\d+$`).MatchString(s.Image),
			"%s: the image %s has no exact version", name, s.Image)
		assert.NotEmpty(t, s.MemLimit, name)
		assert.NotEmpty(t, s.Logging.Options["max-size"], name)
	}
}

// The health check asks where the server listens, whatever the address is.
func TestHealth(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--store", "file:"+t.TempDir(), "--admin", "127.0.0.1:0")
	admin := p.awaitLog("probes are answered")["address"].(string)
	addr := strings.TrimPrefix(p.url, "http://")
	_, port, _ := strings.Cut(addr, ":")
	ask := func(env map[string]string, args ...string) (int, string) {
		var out bytes.Buffer
		code := called(t.Context(), append([]string{"health"}, args...), lookupIn(env), &out, &out)
		return code, out.String()
	}
	for _, args := range [][]string{
		{"--listen", addr}, {"--listen", ":" + port}, {"--listen", "[::]:" + port, "--ready"},
		{"--admin", admin}, {"--admin", admin, "--ready"},
	} {
		code, out := ask(nil, args...)
		assert.Equal(t, command.OK, code, "%q: %d, %s", args, code, out)
	}
	code, out := ask(map[string]string{"SNOWFLAKED_ADMIN": admin, "SNOWFLAKED_LISTEN": "127.0.0.1:1"})
	assert.Equal(t, command.OK, code, out)
	code, out = ask(nil, "--listen", addr, "--tls-cert", "cert.pem")
	require.Equal(t, command.Failure, code)
	assert.Contains(t, out, "https")
	for _, args := range [][]string{{"--listen", "127.0.0.1:0"}, {"--listen", "8080"}, {"--admin", "localhost:"}, {"now"}} {
		code, out := ask(nil, args...)
		assert.Equal(t, command.Usage, code, "%q: %d, %s", args, code, out)
	}
}
