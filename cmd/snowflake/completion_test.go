package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell runs a program of a shell that has sourced the completion.
func shell(t *testing.T, name, program string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("%s is not installed: apt-get install %s", name, name)
	}
	require.NoError(t, err)
	script := filepath.Join(t.TempDir(), "completion")
	require.NoError(t, os.WriteFile(script, []byte(succeed(t, "completion", name)), 0o600))
	cmd := exec.Command(path, "-c", strings.ReplaceAll(program, "SCRIPT", script))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestCompletionOfBash(t *testing.T) {
	for line, want := range map[string]string{
		"snowflake id":              "identify",
		"snowflake decode -lay":     "-layout",
		"snowflake new -layout tw":  "twitter",
		"snowflake sql post":        "postgres",
		"snowflake follows sonyfl":  "sonyflake sonyflake-v2",
		"snowflake help lay":        "layout layouts",
		"snowflake worker -":        "-dir -json",
		"snowflake completion fi":   "fish",
		"snowflake nobodys-command": "",
	} {
		got := shell(t, "bash", `source SCRIPT; read -ra COMP_WORDS <<<"`+line+`"; COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _snowflake; echo "${COMPREPLY[@]}"`)
		words := strings.Fields(got)
		assert.ElementsMatch(t, strings.Fields(want), words, line)
	}
}

func TestCompletionOfZsh(t *testing.T) {
	assert.Equal(t, "_snowflake\n", shell(t, "zsh", `autoload -Uz compinit && compinit -u -D && source SCRIPT && whence -w _snowflake | cut -d: -f1`))
}

func TestCompletionOfFish(t *testing.T) {
	assert.Contains(t, shell(t, "fish", `source SCRIPT; complete -C'snowflake id'`), "identify\t")
	assert.Contains(t, shell(t, "fish", `source SCRIPT; complete -C'snowflake new -layout tw'`), "twitter")
}

func TestCompletionRefusesInput(t *testing.T) {
	for args, names := range map[string]string{"completion": "one shell", "completion tcsh": `"tcsh"`} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitUsage, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, names)
	}
}
