//go:build go1.25

// Command proof looks for what breaks the invariant of package lease, in two ways. It asks the
// solver z3 for a counterexample in worlds of any size, as lease.smt2 states the protocol.
// And it runs every sequence of steps of small worlds with the real code (lease/explore_test.go);
// such a sequence is called a story. It fails if it finds something. If z3 is not installed, it
// says so and only runs the stories. With -without it leaves out a guard of the protocol, and prints
// a step after which the invariant no longer holds.
//
//	go run ./internal/lab/proof
//	go run ./internal/lab/proof -scope tenure -more-ticks 1 -more-faults 1
//	go run ./internal/lab/proof -guards
//	go run ./internal/lab/proof -without newcomer-waits
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	z3 := flag.String("z3", "z3", "the solver's program")
	guard := flag.String("without", "", "leave out this guard, and look for a counterexample")
	list := flag.Bool("guards", false, "list the guards")
	scope := flag.String("scope", "", "run only the stories of this scope of lease/explore_test.go, or of all, and do not ask the solver")
	ticks := flag.Int("more-ticks", 0, "enlarge each scope by so many ticks")
	faults := flag.Int("more-faults", 0, "enlarge each scope by so many faults, of each kind that it has")
	flag.Parse()
	err := run(*z3, *guard, *list, *scope)
	if err == nil && *guard == "" && !*list {
		err = explore(*scope, *ticks, *faults)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(z3, guard string, list bool, scope string) error {
	if list {
		fmt.Println(strings.Join(guards(lease), "\n"))
		return nil
	}
	begun := time.Now()
	if guard != "" {
		broken, err := counterexample(context.Background(), z3, guard)
		if err == nil {
			fmt.Printf("without %s the invariant does not hold after: %s (%.1f s)\n", guard, broken, time.Since(begun).Seconds())
		}
		return err
	}
	if _, err := exec.LookPath(z3); err != nil || scope != "" {
		fmt.Println("z3 is not asked:", cmp.Or(err, errors.New("-scope is set")))
		return nil
	}
	n, err := prove(context.Background(), z3, lease)
	if err == nil {
		fmt.Printf("proved: %d questions, none has a counterexample (%.1f s)\n", n, time.Since(begun).Seconds())
	}
	return err
}

// explore runs every story of a scope or, if it is "all" or empty, of all scopes. Each scope has a
// process of its own, and as many run at once as there are processors.
func explore(scope string, ticks, faults int) error {
	dir, err := os.MkdirTemp("", "proof")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "lease.test")
	if out, err := exec.Command("go", "test", "-c", "-o", program,
		"github.com/seed-5394e6b1/snowflake/lease").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	test := func(args ...string) (string, error) {
		cmd := exec.Command(program, append([]string{"-test.v", "-test.timeout=0", "-test.run=^TestEveryInterleaving$"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOMAXPROCS=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	list, err := test("-scopes")
	if err != nil {
		return fmt.Errorf("%w: %s", err, list)
	}
	var names []string
	for _, m := range regexp.MustCompile(`scope: (\S+)`).FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	switch {
	case slices.Contains(names, scope):
		names = []string{scope}
	case scope != "" && scope != "all":
		return fmt.Errorf("there is no scope %q; the scopes are %s", scope, strings.Join(names, ", "))
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	states, steps, begun := 0, 0, time.Now()
	free := make(chan struct{}, runtime.NumCPU())
	for _, name := range names {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			out, err := test("-scope", name, fmt.Sprintf("-more-ticks=%d", ticks), fmt.Sprintf("-more-faults=%d", faults))
			mu.Lock()
			defer mu.Unlock()
			found := regexp.MustCompile(`(\d+) states, (\d+) steps, .*`).FindStringSubmatch(out)
			if err != nil || found == nil {
				failed = cmp.Or(failed, fmt.Errorf("%s: %w\n%s", name, cmp.Or(err, errors.New("the scope did not run")), out))
				return
			}
			fmt.Printf("%-12s %s\n", name, found[0])
			n, _ := strconv.Atoi(found[1])
			m, _ := strconv.Atoi(found[2])
			states, steps = states+n, steps+m
		})
	}
	all.Wait()
	if failed == nil {
		fmt.Printf("every story: %d states, %d steps, none breaks an invariant (%.1f s)\n", states, steps, time.Since(begun).Seconds())
	}
	return failed
}

// prove returns how many questions z3 has answered. It returns an error if an answer is not
// unsat.
func prove(ctx context.Context, z3, script string) (int, error) {
	answers, err := ask(ctx, z3, split(script))
	for _, a := range answers {
		if a.says != "unsat" {
			return 0, fmt.Errorf("%s: z3 says %s, not unsat", a.question, a.says)
		}
	}
	return len(answers), err
}

// counterexample returns the first step that breaks the invariant if the guard is left out.
func counterexample(ctx context.Context, z3, guard string) (step string, err error) {
	if !slices.Contains(guards(lease), guard) {
		return "", fmt.Errorf("there is no guard %q; -guards lists them", guard)
	}
	for _, scope := range scopes {
		answers, err := ask(ctx, z3, small(without(lease, guard), scope))
		if err != nil {
			return "", err
		}
		for _, a := range answers {
			if a.says == "sat" {
				return a.question, nil
			}
		}
	}
	return "", fmt.Errorf("without %s there is no counterexample in the scopes %v", guard, scopes)
}
