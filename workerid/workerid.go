// Package workerid finds the worker ID of a process without a store: in an environment variable, in
// the name of a StatefulSet's pod, or in the address of the host. Use it if something already
// numbers your processes.
//
//	worker, err := workerid.FromHostname(snowflake.DefaultLayout())
//	...
//	gen, err := snowflake.New(worker, nil)
//
// A number that does not fit the layout is refused. It is never cut to fit, because two different
// numbers could then become the same worker ID.
//
// HAZARD: nothing here can tell whether another process has the same worker ID, or which IDs an
// earlier process issued with it; see [snowflake.New]. The documentation of each function says when
// two processes get the same number. If you cannot rule that out, lease the worker ID: see package
// lease.
//
// If there is no worker ID, the error matches [ErrNoWorkerID]. If the worker ID does not fit the
// layout, the error matches [snowflake.ErrWorkerRange] and is a [*snowflake.FieldRangeError]; if an
// int cannot hold the number, the error's Value is the largest int. If the layout is not valid, the
// error matches [snowflake.ErrInvalidLayout]. Other errors are the operating system's.
package workerid

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// ErrNoWorkerID is returned if the variable, the name or the address contains no worker ID. The
// text of the error says what was found instead.
var ErrNoWorkerID = errors.New("workerid: no worker ID")

// FromEnv returns the worker ID in the environment variable called name. The
// variable must be decimal digits with nothing around them and no leading zeros.
//
// HAZARD: if several processes are started from one configuration, they get the
// same worker ID. Set the variable for each process.
func FromEnv(name string, l snowflake.Layout) (int, error) {
	text, ok := os.LookupEnv(name)
	if !ok {
		return 0, fmt.Errorf("%w: the environment variable %s is not set", ErrNoWorkerID, name)
	}
	if !isDecimal(text) {
		return 0, fmt.Errorf("%w: the environment variable %s is %q, which is not a decimal number", ErrNoWorkerID, name, text)
	}
	worker, err := parse(text, l)
	if err != nil {
		return 0, fmt.Errorf("workerid: the environment variable %s is %s: %w", name, text, err)
	}
	return worker, nil
}

// FromHostname returns the ordinal of a pod of a Kubernetes StatefulSet, which it takes from the
// name of the host: it is 7 in the pod web-7. See [FromPodName] and its hazards.
//
// HAZARD: a pod with hostNetwork has the name of its node. If the pod's template
// sets hostname, all pods have that name. In both cases, get the pod's name from the
// downward API, and pass it to FromPodName.
func FromHostname(l snowflake.Layout) (int, error) {
	name, err := os.Hostname()
	if err != nil {
		return 0, fmt.Errorf("workerid: the name of the host: %w", err)
	}
	return FromPodName(name, l)
}

// FromPodName returns the ordinal of the StatefulSet's pod called name. The ordinal
// is the number after the last hyphen of the name's first label: it is 7 in web-7
// and in web-7.web.default.svc.cluster.local.
//
// HAZARD: an ordinal is unique only within one StatefulSet of one cluster. A second
// StatefulSet, a second cluster, and a second container of the pod have the same
// ordinals: give each its own datacenter, or lease the worker ID. Kubernetes stops
// a pod before it starts the next pod with that ordinal, with two exceptions: if a
// pod is deleted by force, or if its node is given up while the pod still runs, two
// pods can have one ordinal.
//
// HAZARD: only a StatefulSet's pods have ordinals. Other names can look as if they had one:
// ip-10-0-3-4 would be worker 4. The names of a Deployment's pods end in five random characters; in
// one of 850 names, these are all digits.
func FromPodName(name string, l snowflake.Layout) (int, error) {
	label, _, _ := strings.Cut(name, ".")
	hyphen := strings.LastIndexByte(label, '-')
	if hyphen < 1 || label[hyphen-1] == '-' || !isDecimal(label[hyphen+1:]) {
		return 0, fmt.Errorf("%w: the name %q does not end in an ordinal, as web-7 does", ErrNoWorkerID, name)
	}
	worker, err := parse(label[hyphen+1:], l)
	if err != nil {
		return 0, fmt.Errorf("workerid: the ordinal of %q: %w", name, err)
	}
	return worker, nil
}

// isDecimal reports whether text is a decimal number in its canonical form.
func isDecimal(text string) bool {
	return text == "0" || text != "" && text[0] != '0' && strings.Trim(text, "0123456789") == ""
}

// parse returns text as a number, if the number fits l.
func parse(text string, l snowflake.Layout) (int, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	worker, err := strconv.Atoi(text) // if it fails, worker is the largest int
	if err != nil || worker > largest(l) {
		return 0, tooLarge(worker, l)
	}
	return worker, nil
}

// largest returns the largest worker ID of l, which must be valid.
func largest(l snowflake.Layout) int { return 1<<l.WorkerBits - 1 }

func tooLarge(worker int, l snowflake.Layout) error {
	return &snowflake.FieldRangeError{Field: "worker", Value: worker, Max: largest(l)}
}
