(* SPDX-License-Identifier: BSD-2-Clause

   A change of ttl_max while the list of members changes, too.

   In the records it is an epoch, with the members of the epoch before. Here these epochs are revisions of
   a list: the number of an epoch is how often the list had changed, which is the epoch of
   MembershipLocks.v, and how often it was revised since. A revision is decided, taken over by nodes and
   settled like a change of the members, by the same steps of the same code (core/membership_settle.c), except that
   nobody waits for leases to end unless ttl_max becomes shorter. Clients may count votes of several revisions of
   one list.

   Every run with revisions is a run without them, in which nothing happens instead. So what
   MembershipExclusion.v and MembershipTokens.v prove of all runs holds of these. *)
Require Import ZArith List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities MembershipLocks.
Import ListNotations.

Record revised := {
  locks : state;
  ttl_is : Z; ttl_next : Z;          (* of the newest epoch; they are equal while no change is under way *)
  latest : nat;                      (* revision of the newest list; 0: as it was decided *)
  revision_of : node -> nat;         (* that the node's record carries, *)
  since : node -> nat;               (* and the moment at which it took that *)
  met : bool;                        (* witnesses of the latest revision were met, and have waited *)
  lifted : list node;                (* their fences were raised since *)
  finished : bool;                   (* the latest revision is settled; 0 is settled with the list *)
}.

Definition at_first_revision (y : system) (ttl : Z) : revised :=
  {| locks := initial y; ttl_is := ttl; ttl_next := ttl; latest := 0; revision_of := fun _ => 0%nat;
     since := fun _ => 0%nat; met := false; lifted := []; finished := true |}.

Inductive revised_event :=
| Does (ev : event)                  (* a step of MembershipLocks.v *)
| Revises (held : list node) (ttl : Z) (* ttl_max is changed: a majority has accepted it *)
| Takes (n : node) (k : nat)         (* the node's record becomes this revision *)
| Meets (held : list node) (w : wait) (* so many carry the latest one that every majority includes one, *)
| Lifts (n : node) (x : resource) (t : Z)   (* settling it raises fences, *)
| Is_lifted (n : node)               (* each of that node, *)
| Finishes (held : list node).       (* and it is settled *)

Definition carries (r : revised) (n : node) : bool :=
  match stands (nodes (locks r) n) with
  | Intact e => (e =? newest (locks r))%nat && (revision_of r n =? latest r)%nat
  | Lost => false
  end.
Definition majority_carries (r : revised) (held : list node) : bool :=
  is_majority held (list_of (locks r) (newest (locks r))) && forallb (carries r) held.

(* rl_record_change(): the first of two epochs announces a ttl_max, and the second makes it the only one. *)
Definition is_next (r : revised) (ttl : Z) : bool := (ttl_is r =? ttl_next r)%Z || (ttl =? ttl_next r)%Z.
Definition ttl_after (r : revised) (ttl : Z) : Z := if (ttl_is r =? ttl_next r)%Z then ttl_is r else ttl.
(* A shorter one counts when the locks of the longer one have ended. *)
Definition must_wait (r : revised) : bool := (ttl_next r <? ttl_is r)%Z.

(* rl_guard_quarantine(): the longer one, and drift. *)
Definition covers (y : system) (r : revised) (w : wait) : bool :=
  let ttl := Z.max (ttl_is r) (ttl_next r) in
  (ttl + drift y ttl <=? agent_clock y (waiter w) (time_at y (wait_to w)) -
                         agent_clock y (waiter w) (time_at y (wait_from w)) - agent_error y)%Z.

(* The next change of the members begins when the latest revision is settled, and none is half made. *)
Definition may_do (y : system) (r : revised) (ev : event) : bool :=
  match ev with
  | Decides _ _ => finished r && (ttl_is r =? ttl_next r)%Z
  | Gathers _ w => covers y r w
  | _ => true
  end.

Definition with_locks (r : revised) (s : state) : revised :=
  {| locks := s; ttl_is := ttl_is r; ttl_next := ttl_next r; latest := latest r; revision_of := revision_of r;
     since := since r; met := met r; lifted := lifted r; finished := finished r |}.
Definition with_taken (r : revised) (s : state) (n : node) (k : nat) : revised :=
  {| locks := s; ttl_is := ttl_is r; ttl_next := ttl_next r; latest := latest r; revision_of := update (revision_of r) n k;
     since := update (since r) n (now (locks r)); met := met r; lifted := lifted r; finished := finished r |}.
Definition with_settling (r : revised) (s : state) (is_met : bool) (l : list node) (is_over : bool) : revised :=
  {| locks := s; ttl_is := ttl_is r; ttl_next := ttl_next r; latest := latest r; revision_of := revision_of r;
     since := since r; met := is_met; lifted := l; finished := is_over |}.

Definition after (r : revised) (ev : event) (s : state) : revised :=
  match ev with
  | Decides _ _ => {| locks := s; ttl_is := ttl_is r; ttl_next := ttl_next r; latest := 0; revision_of := fun _ => 0%nat;
                      since := since r; met := false; lifted := []; finished := true |}
  | Switches n _ | Loses n _ _ | Installs n _ _ => with_taken r s n 0
  | _ => with_locks r s
  end.

Definition revise (y : system) (r : revised) (e : revised_event) : option revised :=
  let s := locks r in
  match e with
  | Does ev =>
      match step y s ev with
      | Some s' => if may_do y r ev then Some (after r ev s') else None
      | None => None
      end
  | Revises held ttl =>
      if settled s (newest s) && finished r && majority_carries r held && is_next r ttl then
        Some {| locks := next s; ttl_is := ttl_after r ttl; ttl_next := ttl; latest := S (latest r);
                revision_of := revision_of r; since := since r; met := false; lifted := []; finished := false |}
      else None
  | Takes n k =>
      match stands (nodes s n) with
      | Intact e => if (e =? newest s)%nat && (k <=? latest r)%nat then Some (with_taken r (next s) n k) else None
      | Lost => None
      end
  | Meets held w =>
      if hits_majorities held (list_of s (newest s)) && forallb (carries r) held &&
         forallb (fun n => since r n <=? wait_from w)%nat held && (wait_from w <=? wait_to w)%nat &&
         (wait_to w <=? now s)%nat && (negb (must_wait r) || covers y r w)
      then Some (with_settling r (next s) true [] (finished r)) else None
  | Lifts n x t =>
      match step y s (Bumps n x t) with Some s' => Some (with_locks r s') | None => None end
  | Is_lifted n =>
      if met r && carries r n then Some (with_settling r (next s) true (n :: lifted r) (finished r)) else None
  | Finishes held =>
      if is_majority held (list_of s (newest s)) && forallb (among (lifted r)) held then
        Some (with_settling r (next s) (met r) (lifted r) true)
      else None
  end.

Notation revised_reachable y ttl := (Runs.reachable (at_first_revision y ttl) (revise y)).

(* To locks, a revision is a step in which nothing happens. *)
Lemma nothing_happens : forall y s, step y s Passes = Some (next s).
Proof. reflexivity. Qed.

Lemma after_locks : forall r ev s, locks (after r ev s) = s.
Proof. intros r ev s; destruct ev; reflexivity. Qed.

Lemma revise_is_a_step : forall y r e r', revise y r e = Some r' ->
  exists ev, step y (locks r) ev = Some (locks r').
Proof.
  intros y r e r' did. destruct e as [ev|held ttl|n k|held w|n x t|n|held]; unfold revise in did;
    try (match type of did with (if ?b then _ else _) = _ => destruct b; [|discriminate] end;
         injection did as <-; exists Passes; apply nothing_happens).
  - destruct (step y (locks r) ev) as [s'|] eqn:stepped; [|discriminate].
    destruct (may_do y r ev); [|discriminate].
    injection did as <-. exists ev. rewrite after_locks. exact stepped.
  - destruct (stands (nodes (locks r) n)) as [|e]; [discriminate|].
    destruct ((e =? newest (locks r))%nat && (k <=? latest r)%nat); [|discriminate].
    injection did as <-. exists Passes. apply nothing_happens.
  - destruct (step y (locks r) (Bumps n x t)) as [s'|] eqn:stepped; [|discriminate].
    injection did as <-. exists (Bumps n x t). exact stepped.
Qed.

Theorem revisions_need_no_wait : forall y ttl r, revised_reachable y ttl r -> reachable y (locks r).
Proof.
  intros y ttl r reached. induction reached as [|r e r' reached IH did].
  - apply at_first.
  - destruct (revise_is_a_step y r e r' did) as [ev stepped].
    exact (and_then _ _ (locks r) ev (locks r') IH stepped).
Qed.
