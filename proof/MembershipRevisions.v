(* SPDX-License-Identifier: BSD-2-Clause

   A change of ttl_max while the list of members changes, too.

   In the records it is an epoch, with the members of the epoch before. Here these epochs are revisions of
   a list: the number of an epoch is how often the list had changed, which is the epoch of
   MembershipLocks.v, and how often it was revised since. A revision is decided, taken over by nodes and
   settled like a change of the members, except that nobody waits for leases to end. Clients may count
   votes of several revisions of one list.

   Every run with revisions is a run without them, in which nothing happens instead. So what
   MembershipExclusion.v and MembershipTokens.v prove of all runs holds of these. *)
Require Import ZArith List Bool Arith.
From Redlock Require Import Arithmetic Membership MembershipMajorities MembershipLocks.
Import ListNotations.

Record revised := {
  locks : state;
  latest : nat;                      (* revision of the newest list; 0: as it was decided *)
  revision_of : node -> nat;         (* that the node's record carries *)
  is_settled : nat -> bool;          (* each revision of the newest list; 0 is settled with the list *)
}.

Definition at_first_revision (y : system) : revised :=
  {| locks := initial y; latest := 0; revision_of := fun _ => 0%nat; is_settled := fun _ => true |}.

Inductive revised_event :=
| Does (ev : event)                  (* a step of MembershipLocks.v *)
| Revises (held : list node)         (* ttl_max is changed: a majority has accepted it *)
| Takes (n : node)                   (* the node's record becomes the latest revision *)
| Lifts (n : node) (x : resource) (t : Z)   (* settling it raises a fence *)
| Finishes (held : list node).       (* it is settled, and nobody has waited *)

Definition carries (r : revised) (n : node) : bool :=
  match stands (nodes (locks r) n) with
  | Intact e => (e =? newest (locks r))%nat && (revision_of r n =? latest r)%nat
  | Lost => false
  end.
Definition majority_carries (r : revised) (held : list node) : bool :=
  is_majority held (list_of (locks r) (newest (locks r))) && forallb (carries r) held.

(* The next change of the members begins when the latest revision is settled. *)
Definition may_do (r : revised) (ev : event) : bool :=
  match ev with Decides _ _ => is_settled r (latest r) | _ => true end.

Definition after (r : revised) (ev : event) (s : state) : revised :=
  match ev with
  | Decides _ _ => {| locks := s; latest := 0; revision_of := fun _ => 0%nat; is_settled := fun _ => true |}
  | Switches n _ => {| locks := s; latest := latest r; revision_of := update (revision_of r) n 0%nat; is_settled := is_settled r |}
  | _ => {| locks := s; latest := latest r; revision_of := revision_of r; is_settled := is_settled r |}
  end.

Definition revise (y : system) (r : revised) (e : revised_event) : option revised :=
  let s := locks r in
  match e with
  | Does ev =>
      match step y s ev with
      | Some s' => if may_do r ev then Some (after r ev s') else None
      | None => None
      end
  | Revises held =>
      if settled s (newest s) && is_settled r (latest r) && majority_carries r held then
        Some {| locks := next s; latest := S (latest r); revision_of := revision_of r;
                is_settled := update (is_settled r) (S (latest r)) false |}
      else None
  | Takes n =>
      match stands (nodes s n) with
      | Intact e => if (e =? newest s)%nat then
                      Some {| locks := next s; latest := latest r; revision_of := update (revision_of r) n (latest r);
                              is_settled := is_settled r |}
                    else None
      | Lost => None
      end
  | Lifts n x t =>
      match step y s (Bumps n x t) with
      | Some s' => Some {| locks := s'; latest := latest r; revision_of := revision_of r; is_settled := is_settled r |}
      | None => None
      end
  | Finishes held =>
      if majority_carries r held then
        Some {| locks := next s; latest := latest r; revision_of := revision_of r;
                is_settled := update (is_settled r) (latest r) true |}
      else None
  end.

Inductive revised_reachable (y : system) : revised -> Prop :=
| unrevised : revised_reachable y (at_first_revision y)
| revised_further : forall r e r', revised_reachable y r -> revise y r e = Some r' -> revised_reachable y r'.

(* To locks, a revision is a step in which nothing happens. *)
Lemma nothing_happens : forall y s, step y s Passes = Some (next s).
Proof. reflexivity. Qed.

Lemma after_locks : forall r ev s, locks (after r ev s) = s.
Proof. intros r ev s; destruct ev; reflexivity. Qed.

Lemma revise_is_a_step : forall y r e r', revise y r e = Some r' ->
  exists ev, step y (locks r) ev = Some (locks r').
Proof.
  intros y r e r' did. destruct e as [ev|held|n|n x t|held]; unfold revise in did.
  - destruct (step y (locks r) ev) as [s'|] eqn:stepped; [|discriminate].
    destruct (may_do r ev); [|discriminate].
    injection did as <-. exists ev. rewrite after_locks. exact stepped.
  - destruct (settled (locks r) (newest (locks r)) && is_settled r (latest r) && majority_carries r held); [|discriminate].
    injection did as <-. exists Passes. apply nothing_happens.
  - destruct (stands (nodes (locks r) n)) as [|e]; [discriminate|].
    destruct (e =? newest (locks r))%nat; [|discriminate].
    injection did as <-. exists Passes. apply nothing_happens.
  - destruct (step y (locks r) (Bumps n x t)) as [s'|] eqn:stepped; [|discriminate].
    injection did as <-. exists (Bumps n x t). exact stepped.
  - destruct (majority_carries r held); [|discriminate].
    injection did as <-. exists Passes. apply nothing_happens.
Qed.

Theorem revisions_need_no_wait : forall y r, revised_reachable y r -> reachable y (locks r).
Proof.
  intros y r reached. induction reached as [|r e r' reached IH did].
  - apply at_first.
  - destruct (revise_is_a_step y r e r' did) as [ev stepped].
    exact (and_then y (locks r) ev (locks r') IH stepped).
Qed.
