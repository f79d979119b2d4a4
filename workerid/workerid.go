// Package workerid finds the worker ID of a process without a store: in an environment variable, in
// the name of a StatefulSet's pod, or in the address of the host. Use it if something already
// numbers your processes.
//
//	worker, err := workerid.FromHostname(snowflake.DefaultLayout())
//	...
//	gen, err := snowflake.New(worker, nil)
//
// HAZARD: nothing here can tell whether another process has the same worker ID, or which IDs an
// earlier process issued with it; see [snowflake.New]. The doc of each function says when two
// processes get the same number. If you cannot rule that out, lease the worker ID: see package
// lease.
//
// If there is no worker ID, the error matches [ErrNoWorkerID]. A number that does not fit the
// layout is refused with a [*snowflake.FieldRangeError], and not cut to fit, because two numbers
// could then become one worker ID; if an int cannot hold the number, the error's Value is the
// largest int. If the layout is not valid, the error matches [snowflake.ErrInvalidLayout]. Other
// errors are the operating system's.
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
// error quotes it.
var ErrNoWorkerID = errors.New("workerid: no worker ID")

// FromEnv returns the worker ID in the environment variable called name, which must be decimal
// digits without spaces or leading zeros.
//
// HAZARD: processes that are started from one configuration get the same worker ID. Set the
// variable for each process.
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

// FromHostname is [FromPodName] for the name of the host, and has its hazards.
//
// HAZARD: a pod with hostNetwork has the name of its node. If the pod's template sets hostname, all
// pods have that name. In both cases, get the pod's name from the downward API, and pass it to
// FromPodName.
func FromHostname(l snowflake.Layout) (int, error) {
	name, err := os.Hostname()
	if err != nil {
		return 0, fmt.Errorf("workerid: the name of the host: %w", err)
	}
	return FromPodName(name, l)
}

// FromPodName returns the ordinal of the pod called name of a Kubernetes StatefulSet: the number
// after the last hyphen of the name's first label, which is 7 in web-7 and in
// web-7.web.default.svc.cluster.local.
//
// HAZARD: an ordinal is unique only within one StatefulSet of one cluster. A second StatefulSet, a
// second cluster, and a second container of the pod have the same ordinals: give each its own
// datacenter, or lease the worker ID. If a pod is deleted by force, or its node is given up while
// the pod runs, the next pod with that ordinal starts before this pod has stopped.
//
// HAZARD: other names can look as if they had an ordinal: ip-10-0-3-4 would be worker 4. The names
// of a Deployment's pods end in five random characters; in one of 850 names, these are all digits.
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
