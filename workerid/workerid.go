// Package workerid finds the worker ID of a process where it is known already:
// in an environment variable, in the name of a StatefulSet's pod, in the
// address of the host. It needs no store.
//
//	worker, err := workerid.FromHostname(snowflake.DefaultLayout())
//	...
//	gen, err := snowflake.New(worker, nil)
//
// What does not fit the layout is refused, never cut to fit: two numbers that
// are cut can become one.
//
// HAZARD: nothing here can tell whether another process has the same worker ID,
// nor what the process that had it before has stamped; see [snowflake.New]. Each
// function says where that can happen. Where you cannot rule it out, lease the
// worker ID: see package lease.
//
// Errors match [ErrNoWorkerID], or [snowflake.ErrWorkerRange] for a worker ID
// that does not fit the layout, or [snowflake.ErrInvalidLayout], or are the
// operating system's. That of a worker ID that does not fit is a
// [*snowflake.FieldRangeError]; its Value is the largest int where no int holds
// the number.
package workerid

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// ErrNoWorkerID is returned when there is no worker ID where it was looked for.
// The text of the error says what was found there.
var ErrNoWorkerID = errors.New("workerid: no worker ID")

// FromEnv returns the worker ID that the environment variable called name has:
// decimal digits with nothing around them, and no leading zeros.
//
// HAZARD: processes that are started from one configuration have one worker ID.
// Set it for each of them.
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

// FromHostname returns the ordinal of a Kubernetes StatefulSet's pod, by the
// name of the host: it is 7 in the pod web-7. See [FromPodName].
//
// HAZARD: a pod with hostNetwork has the name of its node, and where a
// template sets hostname, all pods have that. Pass the pod's name, by the
// downward API, to FromPodName then.
func FromHostname(l snowflake.Layout) (int, error) {
	name, err := os.Hostname()
	if err != nil {
		return 0, fmt.Errorf("workerid: the name of the host: %w", err)
	}
	return FromPodName(name, l)
}

// FromPodName returns the ordinal of the StatefulSet's pod called name, which
// stands behind the last hyphen of the first label: it is 7 in web-7 and in
// web-7.web.default.svc.cluster.local.
//
// HAZARD: an ordinal is unique within one StatefulSet of one cluster. A second
// StatefulSet, a second cluster, and a second container of the pod have the same
// ordinals: give them other datacenters, or lease. Kubernetes stops a pod before
// it starts the next one of that ordinal, but not where a pod is deleted by
// force or its node is given up while it still runs: then two have one ordinal.
//
// HAZARD: only a StatefulSet's pods have ordinals. Other names may look as if
// they had: ip-10-0-3-4 would be worker 4, and of a Deployment's pods, whose
// names end in five random characters, one in 850 ends in digits only.
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

// parse returns the number whose canonical form text is, if it fits l.
func parse(text string, l snowflake.Layout) (int, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	worker, err := strconv.Atoi(text) // can only fail with the largest int
	if err != nil || worker > largest(l) {
		return 0, tooLarge(worker, l)
	}
	return worker, nil
}

// largest returns the largest worker ID of l, which is valid.
func largest(l snowflake.Layout) int { return 1<<l.WorkerBits - 1 }

func tooLarge(worker int, l snowflake.Layout) error {
	return &snowflake.FieldRangeError{Field: "worker", Value: worker, Max: largest(l)}
}
