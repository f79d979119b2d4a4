package main

// leaseMutants are the mistakes of package lease, and of the generator under a lease
// that replaces its worker ID.
var leaseMutants = []mutant{
	// The protocol.
	{"the bound is recorded after its use", 20, []patch{{"lease/renew.go",
		"\tw := l.window\n\tif err := l.move(ctx, func(r Record) Record { return r.withWindow(w, later(", `	w := l.window
	if on("the bound is recorded after its use") && l.granted {
		l.window.to = later(w.to, bound)
		l.publish()
		l.window.to = w.to
	}
	if err := l.move(ctx, func(r Record) Record { return r.withWindow(w, later(`}}},
	{"the token is not compared", 20, []patch{{"lease/save.go",
		"\t\tcase r.Token == own.Token && (r.Version <= own.Version ||",
		"\t\tcase (on(\"the token is not compared\") || r.Token == own.Token) && (on(\"the token is not compared\") || r.Version <= own.Version ||"}}},
	{"a clone is not told from its original", 20, []patch{{"lease/save.go",
		"r.Version <= own.Version ||", "on(\"a clone is not told from its original\") || r.Version <= own.Version ||"}}},
	{"what was not saved is lost", 20, []patch{{"lease/save.go",
		"|| r.Version <= own.Version ||", "|| r.Version <= own.Version && !on(\"what was not saved is lost\") ||"}}},
	{"the version is not compared", 20, []patch{{"lease/save.go",
		"\t\tr.Version++\n", `		if on("the version is not compared") {
			if snap, err := l.store.LoadWorker(ctx, r.Worker); err == nil && len(snap.Records) == 1 {
				r.Version = snap.Records[0].Version
			}
		}
		r.Version++
`}}},
	{"a lost lease goes on", 20, []patch{{"lease/renew.go",
		"\t\tcase errors.Is(err, ErrLost):\n", `		case errors.Is(err, ErrLost) && on("a lost lease goes on"):
			l.window.to = l.o.now().Add(l.o.Window)
			l.publish()
			wait = every
		case errors.Is(err, ErrLost):
`}}},
	{"a save that failed is taken for made", 20, []patch{{"lease/save.go",
		"\t\tif err == nil {\n\t\t\tl.record.Store(&saved)\n",
		"\t\tif err == nil || on(\"a save that failed is taken for made\") && !errors.Is(err, ErrConflict) {\n\t\t\tl.record.Store(&saved)\n"}}},
	{"a clock sequence is used before that is recorded", 400, []patch{{"lease/clockseq.go",
		"\terr := l.move(ctx, func(r Record) Record { return r.withWindow(w, ", `	if on("a clock sequence is used before that is recorded") {
		l.window = w
		l.window.to = now.Add(l.o.Window)
		l.publish()
	}
	err := l.move(ctx, func(r Record) Record { return r.withWindow(w, `}}},
	{"a clock sequence begins before its bound", 600, []patch{{"lease/clockseq.go",
		"\tl.window = w\n\tl.publish()\n\treturn nil\n", `	if on("a clock sequence begins before its bound") {
		w.from = now.Add(-l.o.Window)
	}
	l.window = w
	l.publish()
	return nil
`}}},
	{"a new holder begins at its clock", 20, []patch{{"lease/acquire.go",
		"\tl.window, l.granted = a.window, false\n", `	l.window, l.granted = a.window, false
	if on("a new holder begins at its clock") {
		l.window.from = l.o.now().Add(-l.o.Window)
	}
`}}},
	{"a new holder forgets the other clock sequences", 20, []patch{{"lease/acquire.go",
		"\tr.Window = l.o.Window\n", "\tr.Window = l.o.Window\n\tif on(\"a new holder forgets the other clock sequences\") {\n\t\tr.Bounds = nil\n\t}\n"}}},
	{"another's record is adopted", 200, []patch{{"lease/acquire.go",
		"\t\t\tif r.same(a.wanted) {\n", "\t\t\tif r.same(a.wanted) || on(\"another's record is adopted\") && r.Worker == a.wanted.Worker {\n"}}},
	{"Acquire does not wait for its window", 20, []patch{{"lease/acquire.go",
		"\t\t} else if wait <= 0 {\n", "\t\t} else if wait <= 0 || on(\"Acquire does not wait for its window\") {\n"}}},
	{"live holders lose their worker IDs", 20, []patch{{"lease/choose.go",
		"\t\tif r.Live(snap.Now) {\n", "\t\tif r.Live(snap.Now) && !on(\"live holders lose their worker IDs\") {\n"}}},
	{"the clients' clocks say who is dead", 20, []patch{{"lease/choose.go",
		"r.Live(snap.Now) &&", "r.Live(map[bool]time.Time{false: snap.Now, true: now}[on(\"the clients' clocks say who is dead\")]) &&"}}},
	{"kept worker IDs go to others", 20, []patch{{"lease/choose.go",
		"reuse == ReuseKeep && !mine {", "reuse == ReuseKeep && !mine && !on(\"kept worker IDs go to others\") {"}}},
	{"spent worker IDs are used again", 20, []patch{{"lease/choose.go",
		"r.State == Spent || reuse == ReuseOnce ||", "(r.State == Spent || reuse == ReuseOnce) && !on(\"spent worker IDs are used again\") ||"}}},
	{"a second worker ID for an owner that keeps one", 20, []patch{{"lease/choose.go",
		"\tif o.Reuse != ReuseKeep || !owns {", "\tif o.Reuse != ReuseKeep || !owns || on(\"a second worker ID for an owner that keeps one\") {"}}},
	{"bounds follow the clock back", 20, []patch{{"lease/renew.go",
		"\tbound := later(l.window.to, now.Add(l.o.Window))\n", `	bound := later(l.window.to, now.Add(l.o.Window))
	if on("bounds follow the clock back") {
		bound = now.Add(l.o.Window)
	}
`}, {"lease/renew.go", "later(r.bound(w.seq), bound)) })",
		"map[bool]time.Time{false: later(r.bound(w.seq), bound), true: bound}[on(\"bounds follow the clock back\")]) })"}}},
	{"a lease is renewed too late", 20, []patch{{"lease/renew.go",
		"\tevery := l.o.Window / 3\n", "\tevery := l.o.Window / 3\n\tif on(\"a lease is renewed too late\") {\n\t\tevery = 2 * l.o.Window\n\t}\n"}}},
	{"lost is told for a store that is away", 20, []patch{{"lease/save.go",
		"\tif err != nil {\n\t\treturn err\n\t}\n\tfor _, r", `	if err != nil && on("lost is told for a store that is away") {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err != nil {
		return err
	}
	for _, r`}}},
	{"a wiped store is a loss", 100, []patch{{"lease/save.go",
		"\tsnap, err := l.store.LoadWorker(ctx, own.Worker)\n", `	snap, err := l.store.LoadWorker(ctx, own.Worker)
	if on("a wiped store is a loss") && errors.Is(err, ErrWiped) {
		err = nil
	}
`}}},
	{"the local copy is not written", 20, []patch{{"lease/local.go",
		"\tsaved, err := local(r)\n", `	saved, err := r, error(nil)
	if !on("the local copy is not written") || r.Version <= 3 {
		saved, err = local(r)
	}
`}}},

	// The end of a lease.
	{"a release does not stop the generator first", 20, []patch{{"lease/lease.go",
		"\tif stop != nil {\n\t\tnext = stop(ErrReleased)\n\t}\n", `	if stop != nil {
		if next = l.o.now(); !on("a release does not stop the generator first") {
			next = stop(ErrReleased)
		}
	}
`}}},
	{"Release after a replacement records the old worker ID's instant", 400, []patch{{"lease/lease.go",
		"\t\t\tnext = stop(ErrReleased)\n\t\t}\n", `			next = stop(ErrReleased)
		}
		if on("Release after a replacement records the old worker ID's instant") {
			for _, r := range l.lost {
				next = r.Bound()
			}
		}
`}}},
	{"release does not lower the bound", 20, []patch{{"lease/lease.go",
		"\t\tif next.Before(r.Bound().Add(l.o.Layout.Unit)) {\n",
		"\t\tif next.Before(r.Bound().Add(l.o.Layout.Unit)) && !on(\"release does not lower the bound\") {\n"}}},
	{"release records nothing", 20, []patch{{"lease/lease.go",
		"\tif r == nil || r.State != Held {\n\t\treturn nil\n", "\tif r == nil || r.State != Held || on(\"release records nothing\") {\n\t\treturn nil\n"}}},

	// The replacement of a lost worker ID.
	{"a lost worker ID is never replaced", 50, []patch{{"lease/renew.go",
		"\t\tl.lose(lost)\n", "\t\tl.lose(lost)\n\t\tif on(\"a lost worker ID is never replaced\") {\n\t\t\treturn\n\t\t}\n"}}},
	{"the old worker ID is stamped after the new grant", 50, []patch{{"lease.go",
		"g.layout.fixed(grant.ClockSeq, was.Datacenter, grant.Worker)",
		"g.layout.fixed(grant.ClockSeq, was.Datacenter, map[bool]int{false: grant.Worker, true: was.Worker}[on(\"the old worker ID is stamped after the new grant\")])"}}},
	{"a replacement begins before its bound", 100, []patch{{"lease/replace.go",
		"\tbefore := l.Worker()\n", `	before := l.Worker()
	if on("a replacement begins before its bound") {
		l.window.from = l.o.now().Add(-l.o.Window)
	}
`}}},
	{"a replacement is not counted", 50, []patch{{"lease/replace.go",
		"\tl.stats.Replacements++\n", "\tif !on(\"a replacement is not counted\") {\n\t\tl.stats.Replacements++\n\t}\n"}}},
	{"the acquisition's context is kept", 20, []patch{{"lease/acquire.go",
		"\tgo l.run(l.ctx)\n", "\tif !on(\"the acquisition's context is kept\") {\n\t\tctx = l.ctx\n\t}\n\tgo l.run(ctx)\n"}}},

	// Waiting for a renewal.
	{"a renewal is waited for past the deadline", 200, []patch{{"lease/extend.go",
		"\t\tif wait <= 0 {\n", `		if on("a renewal is waited for past the deadline") {
			ctx = context.WithoutCancel(ctx)
		}
		if wait <= 0 {
`}}},
	{"a renewal is waited for while the store is away", 50, []patch{{"lease/extend.go",
		"\tcase l.failing != nil:\n\t\treturn nil, 0,", "\tcase l.failing != nil && !on(\"a renewal is waited for while the store is away\"):\n\t\treturn nil, 0,"}}},
	{"a renewal is waited for without end", 200, []patch{{"lease/extend.go",
		"\tif patience = l.patience(); patience <= 0 {\n", "\tif patience = l.patience(); patience <= 0 && on(\"a renewal is waited for without end\") {\n\t\tpatience = l.o.Window\n\t} else if patience <= 0 {\n"}}},
	{"a renewal is not asked for", 400, []patch{{"lease/extend.go",
		"\tl.ask()\n\treturn l.news, patience, nil\n", "\tif !on(\"a renewal is not asked for\") {\n\t\tl.ask()\n\t}\n\treturn l.news, patience, nil\n"}}},
	{"a renewal that succeeds is not told", 200, []patch{{"lease/renew.go",
		"\tdefer l.tell()\n", "\tif err != nil || !on(\"a renewal that succeeds is not told\") {\n\t\tdefer l.tell()\n\t}\n"}}},

	// A clock that leaps.
	{"a clock that leaps burns the future", 100, []patch{{"lease/leap.go",
		"\tif bound.Sub(expected) <= l.o.MaxLeap {\n", "\tif bound.Sub(expected) <= l.o.MaxLeap || on(\"a clock that leaps burns the future\") {\n"}}},
	{"a clock that has leapt may begin", 100, []patch{{"lease/leap.go",
		"\tcase snap.OwnClock:\n", "\tcase snap.OwnClock && !on(\"a clock that has leapt may begin\"):\n"}}},
	{"a leap is accepted before its time", 200, []patch{{"lease/leap.go",
		"at.Sub(h.leapt) >= max\n", "(at.Sub(h.leapt) >= max || on(\"a leap is accepted before its time\") && at.Sub(h.leapt) >= max/2)\n"}}},
	{"a leap is accepted though the store's clock decides", 400, []patch{{"lease/leap.go",
		"return !h.ownClock &&", "return (!h.ownClock || on(\"a leap is accepted though the store's clock decides\")) &&"}}},
	{"a leap is never accepted", 400, []patch{{"lease/leap.go",
		"\tif h.leapt.IsZero() {\n\t\th.leapt = at\n\t}\n", "\tif h.leapt.IsZero() || on(\"a leap is never accepted\") {\n\t\th.leapt = at\n\t}\n"}}},

	// The history.
	{"the bound is saved without the history", 20, []patch{{"lease/store.go",
		"\tif h, ok := s.(Historian); ok {\n", "\tif h, ok := s.(Historian); ok && !on(\"the bound is saved without the history\") {\n"}}},
	{"the history is saved without the bound", 20, []patch{{"lease/store.go",
		"\t\treturn h.SaveEnding(ctx, r, ended, forget)\n", `		if on("the history is saved without the bound") {
			r.Bounds = old.Bounds
		}
		return h.SaveEnding(ctx, r, ended, forget)
`}}},
	{"a holding ends when it is replaced", 20, []patch{{"lease/store.go",
		"\t\tforget := o.now()", "\t\tif on(\"a holding ends when it is replaced\") {\n\t\t\tended.To = o.now()\n\t\t}\n\t\tforget := o.now()"}}},
	{"a holding begins where the one before did", 20, []patch{{"lease/store.go",
		"\tr.From = w.from\n", "\tif !on(\"a holding begins where the one before did\") || r.From.IsZero() {\n\t\tr.From = w.from\n\t}\n"}}},
	{"history is forgotten too soon", 20, []patch{{"lease/store.go",
		".Add(-o.History).UTC()", ".Add(-o.History + map[bool]time.Duration{true: o.Window}[on(\"history is forgotten too soon\")]).UTC()"}}},
	{"what is forgotten is not recorded", 50, []patch{{"lease/store.go",
		"\t\tr.Forgotten = later(r.Forgotten, forget)\n", "\t\tif !on(\"what is forgotten is not recorded\") {\n\t\t\tr.Forgotten = later(r.Forgotten, forget)\n\t\t}\n"}}},
	{"a store without a history forgets nothing", 50, []patch{{"lease/store.go",
		"\tr.Forgotten = later(r.Forgotten, ended.To)\n\treturn", "\tif !on(\"a store without a history forgets nothing\") {\n\t\tr.Forgotten = later(r.Forgotten, ended.To)\n\t}\n\treturn"}}},
	{"Whois does not look at the clock sequence", 50, []patch{{"lease/whois.go",
		"\t\tif h.ClockSeq == parts.ClockSeq && ", "\t\tif (h.ClockSeq == parts.ClockSeq || on(\"Whois does not look at the clock sequence\")) && "}}},
	{"Whois takes the end of a holding for a part of it", 20, []patch{{"lease/whois.go",
		"parts.Time.Before(h.To) {", "(parts.Time.Before(h.To) || on(\"Whois takes the end of a holding for a part of it\") && !parts.Time.After(h.To.Add(r.Layout.Unit))) {"}}},
	{"Whois takes what is forgotten for never issued", 50, []patch{{"lease/whois.go",
		"\tif parts.Time.Before(r.Forgotten) {\n", "\tif parts.Time.Before(r.Forgotten) && !on(\"Whois takes what is forgotten for never issued\") {\n"}}},
}
