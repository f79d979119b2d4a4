; The invariant of package lease is inductive, for any number of worker IDs, holders, clock
; sequences, saves and ticks.
;
;	go run ./internal/lab/proof
;
; The program asks z3 the questions one by one; z3 alone gives up on most. Each check below asks for
; a counterexample, so each answer has to be unsat. The words are those of lease/doc.go, and one
; more: a save is a request to put a record, also if it never arrives. In the chain, a record that
; was put back follows the record that was lost. Each loss of its entry gives the store of a worker
; ID another name: here, the number of losses.

; What is assumed of the code, and is not shown here:
;
;   - A holder that put its record back goes on from there only while the window since its last
;     save lasts (restored-within-the-window; tenure.Tenure.mayRestore).
;   - A newcomer that finds a record has read the entry "store" in the same instant, and one
;     request is stored once at most.
;   - If the store loses entries, nobody takes a holder for dead that has saved within its window: the
;     store's clock is right.
;   - Of the entries of a worker ID, the record is never lost alone: the entry "store" is lost
;     with it. The mark does for a record what "store" does for all.
;   - No machine is cloned, and the store does not lose a save without losing the entry.

(set-option :smt.random_seed 1)

; ---- What there is. ----

(declare-sort Worker 0)
(declare-sort Holder 0) ; an acquisition: a lease that replaces its worker ID is two holders
(declare-sort ClockSeq 0)    ; a clock sequence
(declare-sort Save 0)
(declare-datatypes ((Kind 0)) (((take) (move) (release) (restore))))
(declare-datatypes ((State 0)) (((x) (y)))) ; before a step, and after it

(declare-const none Save)             ; no entry
(declare-const M Int)                 ; MaxWindow
(declare-const loses Bool)            ; the store may lose entries; then
(declare-const half Int)              ; a clock is wrong by at most half of the skew
(assert (and (< 0 M) (<= 0 half)))
(define-fun wait () Int (+ M half half)) ; protocol.Healing
(define-fun reach () Int (+ M half))  ; how far ahead of true time a bound may be

; Of a holder, and of a save, which does not change after it was sent:
(declare-fun worker (Holder) Worker)
(declare-fun window (Holder) Int)     ; Options.Window
(declare-fun low (Holder ClockSeq) Int)    ; the bounds in the record that the holder replaced
(declare-fun by (Save) Holder)        ; the token
(declare-fun kind (Save) Kind)
(declare-fun old (Save) Save)         ; the version that it names
(declare-fun bound (Save ClockSeq) Int)
(declare-fun seq (Save) ClockSeq)          ; its window is under seq and begins at from
(declare-fun from (Save) Int)
(declare-fun name (Save) Int)         ; the name of the store that the holder found
(assert (forall ((h Holder)) (and (< 0 (window h)) (<= (window h) M))))

; The state:
(declare-fun now (State) Int)         ; true time, which nobody knows
(declare-fun cur (State Worker) Save) ; the entry of a worker ID
(declare-fun losses (State Worker) Int) ; how often the store lost it,
(declare-fun lost (State Worker) Int) ; and when, for the last time
(declare-fun sent (State Save) Bool)
(declare-fun made (State Save) Bool)  ; it was stored, at some time
(declare-fun at (State Save) Int)     ; at this time
(declare-fun chained (State Save) Bool) ; and is in the chain
(declare-fun open (State Save) Bool)  ; its sender still heeds the answer
(declare-fun heir (State Worker) Holder) ; who holds the worker ID, or held it when the chain broke off
(declare-fun born (State Holder) Bool); it has sent its first save
(declare-fun rec (State Holder) Save) ; the holder's own record, as last known to be saved; none before it holds
(declare-fun active (State Holder) Bool) ; it has a grant, until its generator stops:
(declare-fun gseq (State Holder) ClockSeq) ; the clock sequence,
(declare-fun gfrom (State Holder) Int); the beginning
(declare-fun gto (State Holder) Int)  ; and the end of the grant
(declare-fun over (State Holder) Bool); it released the worker ID, or gave it back
(declare-fun next (State Holder ClockSeq) Int) ; it stamped nothing from here on,
(declare-fun top (State Holder ClockSeq) Int)  ; and may stamp nothing from here on

; ---- The guards, and what of package lease keeps each. A test sets each to false, and z3 then has a
; counterexample. ----

(define-fun put-compares-versions () Bool true)                        ; Store.Put
(define-fun grant-is-saved-first () Bool true)                         ; tenure.Tenure.change, Lease.grantWindow
(define-fun stamps-lie-in-the-grant () Bool true)                      ; the generator
(define-fun tokens-are-compared () Bool true)                          ; protocol.Judge
(define-fun holder-begins-at-the-bound () Bool true)                   ; protocol.Record.Start, protocol.Record.Take
(define-fun take-keeps-the-other-bounds () Bool true)                  ; protocol.Record.Take
(define-fun bound-never-goes-back () Bool true)                        ; protocol.Record.Extend
(define-fun sequence-begins-at-its-bound () Bool true)                 ; protocol.Record.Start, tenure.Tenure.Bump
(define-fun release-stops-first () Bool true)                          ; Lease.Release
(define-fun release-keeps-what-was-stamped () Bool true)               ; protocol.Record.Release, protocol.Record.Undo
(define-fun release-keeps-the-bound-before () Bool true)               ; protocol.Record.Release, protocol.Record.Undo
(define-fun no-grant-after-release () Bool true)                       ; the generator, Lease.giveBack
(define-fun newcomer-waits () Bool true)                               ; protocol.Door.Advance, protocol.Record.Missing
(define-fun newcomer-begins-at-its-clock () Bool true)                 ; protocol.Door.Raise, protocol.Record.Missing
(define-fun newcomer-looks-again () Bool true)                         ; wiped.Confirm
(define-fun record-from-before-a-loss-has-the-floor () Bool true)      ; protocol.Door.Raise
(define-fun live-holders-are-left-alone () Bool true)                  ; protocol.Record.Live
(define-fun restored-within-the-window () Bool true)                   ; tenure.Tenure.mayRestore, protocol.Record.Restorable
(define-fun restored-as-it-was () Bool true)                           ; tenure.Tenure.restore
(define-fun bound-is-a-window-ahead () Bool true)                      ; MaxWindow

(define-fun worker-of ((s Save)) Worker (worker (by s)))
(define-fun some ((z State) (h Holder) (c ClockSeq)) Bool (< (low h c) (top z h c))) ; it may stamp, or has stamped
(define-fun dead ((z State) (s Save)) Bool (or (= (kind s) release) (<= (+ (at z s) (window (by s))) (now z))))

; ---- The invariant. 1 to 5 are the lines of the proof in lease/doc.go. ----

; 0. What is plain: what was made was sent, and not in the future.
(define-fun plain ((z State)) Bool (and
  (not (sent z none)) (not (made z none)) (not (chained z none))
  (forall ((s Save)) (=> (sent z s) (and (born z (by s)) (<= 0 (name s)) (<= (name s) (losses z (worker-of s))))))
  (forall ((s Save)) (=> (made z s) (and (sent z s) (<= (at z s) (now z)))))
  (forall ((s Save)) (=> (chained z s) (made z s)))
  (forall ((w Worker)) (and (<= (lost z w) (now z)) (<= 0 (losses z w)) (=> (< 0 (losses z w)) loses)))
  (forall ((w Worker)) (=> (not (= (cur z w) none)) (and (made z (cur z w)) (= (worker-of (cur z w)) w))))
  (forall ((h Holder)) (=> (not (born z h)) (and (= (rec z h) none) (not (active z h)) (not (over z h)))))
  (forall ((h Holder)) (=> (active z h) (and (not (over z h)) (not (= (rec z h) none)))))
  (forall ((h Holder) (c ClockSeq)) (=> (not (born z h)) (not (some z h c))))
  (forall ((h Holder) (c ClockSeq)) (=> (= (rec z h) none) (<= (next z h c) (low h c))))))

; 1. The versions of a record form one chain: the entry is the latest save that was made, and
; no record comes back after another one has replaced it.
(define-fun chain ((z State)) Bool (and
  (forall ((s Save)) (=> (and (made z s) (not (= (old s) none))) (not (= (cur z (worker-of s)) (old s)))))
  (forall ((s Save)) (=> (and (made z s) (not (= (cur z (worker-of s)) none))) (<= (at z s) (at z (cur z (worker-of s))))))
  (forall ((s Save)) (=> (and (made z s) (not (chained z (cur z (worker-of s)))) (not (= (cur z (worker-of s)) s)) (or (chained z s) (= (kind s) restore)))
    (<= (at z s) (lost z (worker-of s)))))))

; 2. The saves of a holder are a stretch of the chain, because each carries the holder's token
; and follows a record that has it, too.
(define-fun tenure ((z State)) Bool (and
  (forall ((h Holder)) (=> (not (= (rec z h) none)) (and (chained z (rec z h)) (= (by (rec z h)) h))))
  (forall ((s Save)) (=> (and (sent z s) (or (= (kind s) move) (= (kind s) release)))
    (and (chained z (old s)) (= (by (old s)) (by s)))))
  (forall ((s Save)) (=> (and (sent z s) (or (= (kind s) restore) (= (kind s) move) (= (kind s) release))) (not (= (rec z (by s)) none))))
  (forall ((s Save)) (=> (and (sent z s) (= (kind s) restore)) (= (old s) none)))
  (forall ((s Save)) (=> (and (sent z s) (= (kind s) release)) (over z (by s))))
  (forall ((s Save)) (=> (and (sent z s) (= (kind s) take) (not (= (old s) none))) (made z (old s))))
  (forall ((s Save)) (=> (and (sent z s) (= (kind s) take) (not (= (old s) none))) (= (worker-of (old s)) (worker-of s))))
  (forall ((s Save)) (=> (and (made z s) (not (= (old s) none))) (chained z s)))
  (forall ((r Save) (s Save)) (=> (and (sent z r) (sent z s) (= (kind r) take) (= (kind s) take) (= (by r) (by s))) (= r s)))
  (forall ((s Save)) (=> (and (sent z s) (= (kind s) take) (not (= (rec z (by s)) none))) (chained z s)))
  (forall ((s Save)) (=> (and (sent z s) (= (kind s) move) (open z s)) (= (old s) (rec z (by s)))))
  (forall ((s Save)) (=> (and (made z s) (= (kind s) take) (= (old s) none) (= (cur z (worker-of s)) s)) (= (chained z s) (= (name s) (losses z (worker-of s))))))
  (forall ((w Worker)) (=> (chained z (cur z w)) (= (heir z w) (by (cur z w)))))
  (forall ((w Worker)) (=> (and (not (= (cur z w) none)) (= (name (cur z w)) (losses z w))) (chained z (cur z w))))
  (forall ((s Save)) (=> (and (not (chained z (cur z (worker-of s)))) (or (chained z s) (and (sent z s) (= (kind s) restore)))) (< (name s) (losses z (worker-of s)))))))

; 3. What a holder may stamp begins at the bounds that it found, or later.
(define-fun begin ((z State)) Bool (and
  (forall ((s Save)) (=> (sent z s) (<= (low (by s) (seq s)) (from s))))
  (forall ((s Save) (c ClockSeq)) (=> (sent z s) (<= (low (by s) c) (bound s c))))
  (forall ((s Save) (c ClockSeq)) (=> (and (sent z s) (= (kind s) take) (not (= (old s) none))) (<= (bound (old s) c) (low (by s) c))))
  (forall ((h Holder)) (=> (active z h) (<= (low h (gseq z h)) (gfrom z h))))))

; 4. It ends at the bounds in its own last save.
(define-fun end ((z State)) Bool (and
  (forall ((h Holder)) (=> (active z h)
    (and (<= (gto z h) (top z h (gseq z h))) (<= (gto z h) (bound (rec z h) (gseq z h))))))
  (forall ((h Holder) (c ClockSeq)) (=> (< (low h c) (next z h c)) (and (<= (next z h c) (top z h c)) (<= (next z h c) (bound (rec z h) c)))))
  (forall ((s Save)) (=> (and (made z s) (chained z s) (open z s) (not (over z (by s)))) (<= (bound s (seq s)) (top z (by s) (seq s)))))))

; 5. Bounds do not go back, except when a worker ID is given back, and then not below what was
; stamped.
(define-fun back ((z State)) Bool (and
  (forall ((s Save) (c ClockSeq)) (=> (and (sent z s) (= (kind s) move)) (<= (bound (old s) c) (bound s c))))
  (forall ((s Save) (c ClockSeq)) (=> (and (sent z s) (= (kind s) release) (< (low (by s) c) (next z (by s) c))) (<= (next z (by s) c) (bound s c))))))

; 6. Therefore the entry's bounds lie at or after all that anybody may stamp; and all that
; others than the heir may stamp lies before what the heir found.
(define-fun covers ((z State)) Bool (and
  (forall ((h Holder) (c ClockSeq)) (=> (and (chained z (cur z (worker h))) (some z h c)) (<= (top z h c) (bound (cur z (worker h)) c))))
  (forall ((h Holder) (c ClockSeq)) (=> (and (some z h c) (not (= h (heir z (worker h))))) (<= (top z h c) (low (heir z (worker h)) c))))))

; 7. If the store lost the entry, nobody may stamp past MaxWindow after that; who takes the
; worker ID begins later; and who puts the record back is the heir.
(define-fun heals ((z State)) Bool (and
  (forall ((s Save) (c ClockSeq)) (=> (and loses (sent z s)) (<= (bound s c) (+ (now z) reach))))
  (forall ((h Holder) (c ClockSeq)) (=> (and loses (some z h c)) (<= (top z h c) (+ (now z) reach))))
  (forall ((h Holder) (c ClockSeq)) (=> (and (not (chained z (cur z (worker h)))) (some z h c))
    (and (< 0 (losses z (worker h))) (<= (top z h c) (+ (lost z (worker h)) reach)))))
  (forall ((s Save)) (=> (and (not (chained z (cur z (worker-of s)))) (chained z s)) (< 0 (losses z (worker-of s)))))
  (forall ((s Save) (c ClockSeq)) (=> (and (sent z s) (= (kind s) take) (< 0 (losses z (worker-of s)))
      (ite (= (old s) none) (= (name s) (losses z (worker-of s))) (and (= (cur z (worker-of s)) (old s)) (not (chained z (old s))))))
    (and (<= (+ (lost z (worker-of s)) reach) (low (by s) c)) (<= (+ (lost z (worker-of s)) wait) (now z)))))
  (forall ((s Save)) (=> (and loses (sent z s) (= (kind s) take) (not (= (old s) none))) (dead z (old s))))
  (forall ((s Save)) (=> (and loses (chained z s) (not (over z (by s))) (< (now z) (+ (at z s) (window (by s))))) (= (heir z (worker-of s)) (by s))))))

; THE INVARIANT of lease/doc.go: what two holders of a worker ID may stamp under a clock
; sequence has no instant in common.
(define-fun disjoint ((z State)) Bool
  (forall ((g Holder) (h Holder) (c ClockSeq)) (=> (and (not (= g h)) (= (worker g) (worker h)) (some z g c) (some z h c))
    (or (<= (top z g c) (low h c)) (<= (top z h c) (low g c))))))

(define-fun invariant ((z State)) Bool
  (and (plain z) (chain z) (tenure z) (begin z) (end z) (back z) (covers z) (heals z) (disjoint z)))

; ---- It implies that no ID repeats. ----

; Who has stamped t under c has low <= t < next.
(define-fun twice ((z State)) Bool
  (exists ((g Holder) (h Holder) (c ClockSeq) (t Int)) (and (not (= g h)) (= (worker g) (worker h))
    (<= (low g c) t) (< t (next z g c)) (<= (low h c) t) (< t (next z h c)))))
(push)
(echo "no ID repeats")
(assert (and (invariant x) (twice x)))
(check-sat)
(pop)

; ---- It holds at first. ----

(push)
(echo "first")
(assert (and
  (forall ((w Worker)) (and (= (cur x w) none) (= (losses x w) 0) (<= (lost x w) (now x))))
  (forall ((s Save)) (not (or (sent x s) (made x s) (chained x s) (open x s))))
  (forall ((h Holder)) (and (not (born x h)) (= (rec x h) none) (not (active x h)) (not (over x h))))
  (forall ((h Holder) (c ClockSeq)) (and (<= (top x h c) (low h c)) (<= (next x h c) (low h c))))))
(assert (not (invariant x)))
(check-sat)
(pop)

; ---- Each step keeps it. ----

; A step is of a holder h, its save s, and its worker ID. All else stays as it was. A crash, a
; pause and a lost answer need no step: they are steps that do not happen. A save that
; arrives late is a step that happens late. Above each step stands what of package lease takes it.
(assert (invariant x))
(declare-const h Holder)
(declare-const s Save)
(define-fun w () Worker (worker h))
(define-fun e () Save (cur x w))

(define-fun same-time () Bool (= (now y) (now x)))
(define-fun same-store () Bool (and
  (forall ((v Worker)) (= (cur y v) (cur x v))) (forall ((v Worker)) (= (heir y v) (heir x v)))
  (forall ((r Save)) (= (made y r) (made x r))) (forall ((r Save)) (= (at y r) (at x r)))))
(define-fun same-losses () Bool (forall ((v Worker)) (and (= (losses y v) (losses x v)) (= (lost y v) (lost x v)))))
(define-fun same-chain () Bool (forall ((r Save)) (= (chained y r) (chained x r))))
(define-fun same-sent () Bool (and (forall ((r Save)) (= (sent y r) (sent x r))) (forall ((g Holder)) (= (born y g) (born x g)))))
(define-fun same-open () Bool (forall ((r Save)) (= (open y r) (open x r))))
(define-fun same-rec () Bool (forall ((g Holder)) (= (rec y g) (rec x g))))
(define-fun same-over () Bool (forall ((g Holder)) (= (over y g) (over x g))))
(define-fun same-grant-of ((g Holder)) Bool (and
  (= (active y g) (active x g)) (= (gseq y g) (gseq x g)) (= (gfrom y g) (gfrom x g)) (= (gto y g) (gto x g))))
(define-fun same-grants () Bool (forall ((g Holder)) (same-grant-of g)))
(define-fun same-next () Bool (forall ((g Holder) (c ClockSeq)) (= (next y g c) (next x g c))))
(define-fun same-top () Bool (forall ((g Holder) (c ClockSeq)) (= (top y g c) (top x g c))))
(define-fun same-holders () Bool (and same-rec same-over same-grants same-next same-open))

; A holder sends s.
(define-fun sends () Bool (and same-time same-store same-losses same-chain same-rec same-next same-top
  (not (= s none)) (not (sent x s)) (not (open x s)) (= (by s) h)
  (forall ((r Save)) (= (sent y r) (or (sent x r) (= r s))))
  (forall ((r Save)) (= (open y r) (or (open x r) (= r s))))
  (forall ((g Holder)) (= (born y g) (or (born x g) (= g h))))
  (=> (and bound-is-a-window-ahead loses (or (= (kind s) take) (= (kind s) move))) (forall ((c ClockSeq)) (<= (bound s c) (+ (now x) reach))))))
; A holder takes note of its record r, and heeds no answer to an earlier save.
(define-fun notes ((r Save)) Bool (and
  (forall ((g Holder)) (= (rec y g) (ite (= g h) r (rec x g))))
  (forall ((q Save)) (= (open y q) (and (open x q) (not (= (by q) h)))))))
(define-fun granted () Bool (and
  (forall ((g Holder)) (=> (not (= g h)) (same-grant-of g)))
  (active y h) (= (gseq y h) (seq s)) (= (gfrom y h) (from s)) (= (gto y h) (bound s (seq s)))))

; search.save, protocol.Record.Take
(push)
(echo "a newcomer sends a save that takes the worker ID of the entry")
(define-fun floor () Bool (or (not newcomer-begins-at-its-clock) (forall ((c ClockSeq)) (<= (- (now x) half) (low h c)))))
(assert (and sends same-over same-grants (= (kind s) take) (not (born x h)) (or (= (old s) e) (= (old s) none)) (<= 0 (name s)) (<= (name s) (losses x w))
  (=> (not (= (old s) none)) (= (name s) (losses x w)))
  (<= (low h (seq s)) (from s))
  (forall ((c ClockSeq)) (<= (low h c) (bound s c)))
  (=> (not (= (old s) none)) (and
    (=> (and live-holders-are-left-alone loses) (dead x e))
    (forall ((c ClockSeq)) (=> (ite (= c (seq s)) holder-begins-at-the-bound take-keeps-the-other-bounds) (<= (bound e c) (low h c))))))
  (=> (< 0 (losses x w)) (=> (ite (= (old s) none) (= (name s) (losses x w)) (and record-from-before-a-loss-has-the-floor (not (= (name e) (losses x w)))))
    (and floor (=> newcomer-waits (<= (+ (lost x w) wait) (now x))))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; tenure.Tenure.Renew, protocol.Record.Extend, tenure.Tenure.Bump
(push)
(echo "a holder sends a save that moves its bound or changes to another clock sequence")
(assert (and sends same-over same-grants (= (kind s) move) (not (over x h)) (not (= (rec x h) none)) (= (old s) (rec x h)) (= (name s) (name (rec x h)))
  (=> sequence-begins-at-its-bound (<= (low h (seq s)) (from s)))
  (=> bound-never-goes-back (forall ((c ClockSeq)) (<= (bound (rec x h) c) (bound s c))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; Lease.Release, tenure.Tenure.Release, protocol.Record.Undo
(push)
(echo "a holder stops, and sends a save that gives the worker ID back")
(assert (and sends (= (kind s) release) (not (= (rec x h) none)) (= (old s) (rec x h)) (= (name s) (name (rec x h)))
  (forall ((g Holder)) (= (over y g) (or (over x g) (= g h))))
  (forall ((g Holder)) (ite (and (= g h) release-stops-first) (not (active y g)) (same-grant-of g)))
  (<= (low h (seq s)) (from s))
  (forall ((c ClockSeq)) (<= (bound s c) (bound (rec x h) c)))
  (=> release-keeps-what-was-stamped (forall ((c ClockSeq)) (<= (next x h c) (bound s c))))
  (=> release-keeps-the-bound-before (forall ((c ClockSeq)) (<= (low h c) (bound s c))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; tenure.Tenure.restore
(push)
(echo "a holder finds no entry, and sends a save that puts its record back")
(assert (and sends same-over same-grants (= (kind s) restore) (not (= (rec x h) none)) (= (old s) none) (= (name s) (name (rec x h)))
  (<= (low h (seq s)) (from s))
  (forall ((c ClockSeq)) (ite restored-as-it-was (= (bound s c) (bound (rec x h) c)) (and (<= (low h c) (bound s c)) (<= (bound s c) (+ (now x) reach)))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; The store makes s, now or at any time later.
(define-fun arrives () Bool (and same-time same-losses same-sent same-holders
  (sent x s) (not (made x s)) (= (by s) h) (=> put-compares-versions (= e (old s)))
  (forall ((v Worker)) (= (cur y v) (ite (= v w) s (cur x v))))
  (forall ((r Save)) (= (made y r) (or (made x r) (= r s))))
  (forall ((r Save)) (= (at y r) (ite (= r s) (now x) (at x r))))
  (forall ((v Worker)) (= (heir y v) (ite (and (= v w) (chained y s)) h (heir x v))))))
; Then its holder may stamp up to the bound.
(define-fun may-stamp () Bool (forall ((g Holder) (c ClockSeq))
  (= (top y g c) (ite (and (= g h) (= c (seq s)) (< (top x g c) (bound s c))) (bound s c) (top x g c)))))

; Store.Put
(push)
(echo "a save arrives that takes the worker ID")
(assert (and arrives (= (kind s) take)
  (forall ((r Save)) (= (chained y r) (or (chained x r) (and (= r s) (=> (= (old s) none) (= (name s) (losses x w)))))))
  (ite (chained y s) may-stamp same-top)))
(assert (not (invariant y)))
(check-sat)
(pop)

; Store.Put
(push)
(echo "a save arrives that moves the bound or changes to another clock sequence")
(assert (and arrives (= (kind s) move) may-stamp (forall ((r Save)) (= (chained y r) (or (chained x r) (= r s))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; Store.Put
(push)
(echo "a save arrives that gives the worker ID back")
(assert (and arrives (= (kind s) release) (forall ((r Save)) (= (chained y r) (or (chained x r) (= r s))))
  (forall ((g Holder) (c ClockSeq)) (= (top y g c) (ite (= g h) (next x g c) (top x g c))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; Store.Put
(push)
(echo "a save arrives that puts the record back")
(assert (and arrives (= (kind s) restore) same-chain same-top))
(assert (not (invariant y)))
(check-sat)
(pop)

; wiped.Confirm, Lease.grantWindow
(push)
(echo "a newcomer gets its answer, and is granted its window")
(assert (and same-time same-store same-losses same-chain same-sent same-over same-next same-top
  (=> no-grant-after-release (not (over x h)))
  (= (kind s) take) (= (by s) h) (= (rec x h) none) (open x s) (sent x s) (=> grant-is-saved-first (made x s))
  (=> (and (= (old s) none) newcomer-looks-again) (and (= (name s) (losses x w)) (= e s)))
  (notes s) granted))
(assert (not (invariant y)))
(check-sat)
(pop)

; tenure.Tenure.noteSaved, Lease.grantWindow
(push)
(echo "a holder gets its answer, and is granted more or goes on as before")
(assert (and same-time same-store same-losses same-chain same-sent same-over same-next same-top
  (= (kind s) move) (= (by s) h) (open x s) (sent x s) (=> grant-is-saved-first (made x s))
  (notes s) (or same-grants (and (=> no-grant-after-release (not (over x h))) granted))))
(assert (not (invariant y)))
(check-sat)
(pop)

; tenure.Tenure.look, protocol.Judge
(push)
(echo "a holder looks at the entry, and finds its own save")
(assert (and same-time same-store same-losses same-chain same-sent same-over same-grants same-next same-top
  (not (= (rec x h) none)) (not (= e none)) (=> tokens-are-compared (= (by e) h)) (not (= (kind e) restore)) (notes e)))
(assert (not (invariant y)))
(check-sat)
(pop)

; tenure.Tenure.mayRestore
(push)
(echo "a holder learns in time that its record was put back")
(assert (and same-time same-store same-losses same-sent same-over same-grants same-next
  (not (= (rec x h) none)) (not (over x h)) (made x s) (= (kind s) restore) (= (by s) h) 
  (forall ((c ClockSeq)) (=> restored-as-it-was (= (bound s c) (bound (rec x h) c))))
  (=> restored-within-the-window (< (now x) (+ (at x (rec x h)) (window h))))
  (notes s) (forall ((r Save)) (= (chained y r) (or (chained x r) (= r s))))
  (forall ((g Holder) (c ClockSeq)) (= (top y g c) (ite (and (= g h) (= e s) (< (bound s c) (top x g c))) (bound s c) (top x g c))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; the generator
(push)
(echo "a holder stamps t")
(declare-const t Int)
(assert (and same-time same-store same-losses same-chain same-sent same-open same-rec same-over same-grants same-top
  (active x h) (=> stamps-lie-in-the-grant (and (<= (gfrom x h) t) (< t (gto x h))))
  (forall ((g Holder) (c ClockSeq)) (= (next y g c) (ite (and (= g h) (= c (gseq x h)) (<= (next x g c) t)) (+ t 1) (next x g c))))))
(assert (not (invariant y)))
(check-sat)
(pop)

; nobody
(push)
(echo "the store loses the entry")
(assert (and loses same-time same-sent same-chain same-holders same-top
  (forall ((v Worker)) (= (cur y v) (ite (= v w) none (cur x v))))
  (forall ((v Worker)) (= (losses y v) (ite (= v w) (+ (losses x v) 1) (losses x v))))
  (forall ((v Worker)) (= (lost y v) (ite (= v w) (now x) (lost x v))))
  (forall ((v Worker)) (= (heir y v) (heir x v)))
  (forall ((r Save)) (= (made y r) (made x r))) (forall ((r Save)) (= (at y r) (at x r)))))
(assert (not (invariant y)))
(check-sat)
(pop)

; wiped.Confirm
(push)
(echo "a newcomer that looked again removes its record")
(assert (and same-time same-sent same-chain same-holders same-top same-losses
  (= e s) (= (by s) h) (= (kind s) take) (= (old s) none) (not (= (name s) (losses x w)))
  (forall ((v Worker)) (= (cur y v) (ite (= v w) none (cur x v))))
  (forall ((v Worker)) (= (heir y v) (heir x v)))
  (forall ((r Save)) (= (made y r) (made x r))) (forall ((r Save)) (= (at y r) (at x r)))))
(assert (not (invariant y)))
(check-sat)
(pop)

; nobody
(push)
(echo "time passes")
(assert (and same-store same-sent same-chain same-holders same-top same-losses (< (now x) (now y))))
(assert (not (invariant y)))
(check-sat)
(pop)
