(* SPDX-License-Identifier: BSD-2-Clause

   Membership changes: runs that Coq executes. Two changes complete while an operator is interrupted and
   nodes lose their data. And for each rule two lists of one epoch without it. *)
Require Import List Bool Arith.
From Redlock Require Import Arithmetic Runs Membership MembershipMajorities MembershipChosen.
Import ListNotations.

Definition A : operator := 0.
Definition B : operator := 1.
Definition C : operator := 2.
Definition D : operator := 3.

Definition same_rule (a b : rule) : bool :=
  match a, b with
  | Compares_ballots, Compares_ballots | Promises_first, Promises_first | Looks_at_promises, Looks_at_promises
  | Takes_over_accepted, Takes_over_accepted | Accepts_unchanged, Accepts_unchanged
  | Looks_at_acceptances, Looks_at_acceptances | One_at_a_time, One_at_a_time
  | Recovers_from_majority, Recovers_from_majority | Reads_after_loss, Reads_after_loss
  | Installs_promises, Installs_promises => true
  | _, _ => false
  end.

(* Three members, or five. *)
Definition world (members_ : nat) (dropped : option rule) : system := {|
  first := seq 0 members_;
  drops := fun r => match dropped with Some d => same_rule r d | None => false end;
|}.

(* ---- the parts of the stories -------------------------------------------------------------------- *)

(* Operator p reads node n, and begins with ballot b. Observations are named by their places in the log,
   newest first. *)
Definition begins (p : operator) (n : node) (b : nat) (c : change) : list event := [Reads n; Begins p 0 b c].
Definition promises (p : operator) (n m : node) : list event := [Promises p n; Promises p m; Is_promised p [n; m]].
Definition accepts (p : operator) (n m : node) : list event := [Accepts p n; Accepts p m; Is_accepted p [n; m]].
Definition decides (p : operator) (b : nat) (c : change) (n m : node) : list event :=
  begins p n b c ++ promises p n m ++ accepts p n m.
(* Node n loses its data and recovers from i and j. *)
Definition comes_back (n i j : node) : list event := [Loses n; Reads i; Reads j; Installs n [0; 1]].

(* ---- two changes complete ------------------------------------------------------------------------- *)

(* A adds node 3: nodes 0 and 1 promise, node 0 accepts, and A is interrupted. Node 1 loses its data and
   comes back: it has promised, to A. B wants to remove node 0. It finds what node 0 has accepted, and
   completes it under its own ballot. It switches node 0, and is interrupted. Any client brings nodes 1 and 2
   up, and node 3 recovers from them. Then C removes node 0, with nodes 1, 2 and 3 as acceptors. A request of
   A arrives late: node 0 is at epoch 2, and refuses it. *)
Definition two_changes : list event :=
  begins A 0 1 (Adds 3) ++ promises A 0 1 ++ [Accepts A 0] ++ comes_back 1 0 2 ++
  decides B 2 (Removes 0) 0 1 ++ [Switches B 0; Reads 0; Follows 1 0; Follows 2 0] ++
  [Reads 0; Reads 1; Reads 2; Installs 3 [0; 1; 2]] ++
  begins C 3 1 (Removes 0) ++ [Promises C 3; Promises C 1; Promises C 2; Is_promised C [3; 1; 2];
    Accepts C 2; Accepts C 1; Accepts C 3; Is_accepted C [1; 2; 3]; Switches C 3; Switches C 0; Reads 3; Follows 1 0].

Definition lists (y : system) (events : list event) : option (list (nat * list node) * list (option nat)) :=
  match run y (initial y) events with
  | Some s => Some (decided s, map (fun n => option_map epoch (record_of s n)) [0; 1; 2; 3])
  | None => None
  end.

Example two_changes_complete :
  obeys (world 3 None) /\ NoDup (first (world 3 None)) /\
  lists (world 3 None) two_changes =
    Some ([(2, [1; 2; 3]); (1, [0; 1; 2; 3]); (0, [0; 1; 2])], [Some 2; Some 2; Some 1; Some 2]) /\
  lists (world 3 None) (two_changes ++ [Accepts A 0]) = None.
Proof.
  split; [intros r; reflexivity |]. split; [apply seq_NoDup |]. split; vm_compute; reflexivity.
Qed.

(* ---- a rule that is dropped ----------------------------------------------------------------------- *)

(* B's change is chosen by nodes 1 and 2, and node 0 has accepted A's under a higher ballot. C finds both at
   nodes 0 and 1, and completes A's. *)
Definition c_completes_a : list event := decides C 5 (Adds 4) 0 1.

Definition story (dropped : rule) : list event :=
  match dropped with
  | Compares_ballots => (* node 1 promises to A, then to B, whose ballot is lower *)
      begins A 0 2 (Adds 3) ++ promises A 0 1 ++ decides B 1 (Removes 0) 1 2 ++ [Accepts A 0] ++ c_completes_a
  | Promises_first => (* A and B find nothing accepted, and propose *)
      begins A 0 2 (Adds 3) ++ begins B 1 1 (Removes 0) ++ [Is_promised A [0; 1]; Is_promised B [1; 2];
        Accepts A 0] ++ accepts B 1 2 ++ begins C 0 5 (Adds 4) ++ [Is_promised C [0; 1]] ++ accepts C 0 1
  | Looks_at_promises => (* node 1 has lost its promise to A before node 0 gives one *)
      begins A 0 3 (Adds 3) ++ [Promises A 1] ++ comes_back 1 0 2 ++ decides B 2 (Removes 0) 1 2 ++
      [Promises A 0; Is_promised A [0; 1]; Accepts A 0] ++ c_completes_a
  | Takes_over_accepted => decides A 1 (Adds 3) 0 1 ++ decides B 2 (Removes 0) 1 2
  | Accepts_unchanged => (* node 1 accepts B's change, then A's *)
      begins A 0 1 (Adds 3) ++ promises A 0 1 ++ decides B 2 (Removes 0) 1 2 ++ accepts A 0 1
  | Looks_at_acceptances => (* node 1 has lost its acceptance of A's change before node 0 accepts it *)
      begins A 0 1 (Adds 3) ++ promises A 0 1 ++ [Accepts A 1] ++ comes_back 1 0 2 ++
      decides B 2 (Removes 0) 1 2 ++ [Accepts A 0; Is_accepted A [0; 1]]
  | One_at_a_time =>
      (* All but 3 and 4 are replaced. Both lose their data after they chose B's change. An agent that knows
         only the members of before makes them recover from those: what they accepted is forgotten. *)
      begins A 0 1 (Replaces_all [3; 4]) ++ [Promises A 0; Promises A 3; Promises A 4; Is_promised A [0; 3; 4];
        Accepts A 0; Accepts A 3; Accepts A 4; Is_accepted A [0; 3; 4]; Switches A 3; Switches A 4] ++
      decides B 1 (Adds 5) 3 4 ++ [Loses 3; Loses 4; Reads 0; Reads 1; Reads 2; Installs 3 [0; 1; 2];
        Installs 4 [0; 1; 2]; Switches A 3; Switches A 4] ++ decides C 1 (Adds 6) 3 4
  | Recovers_from_majority => (* node 1 reads node 2 alone *)
      decides A 1 (Adds 3) 0 1 ++ [Loses 1; Reads 2; Installs 1 [0]] ++ decides B 1 (Removes 0) 1 2
  | Reads_after_loss => (* what was read before A began is installed *)
      [Reads 0; Reads 2] ++ decides A 1 (Adds 3) 0 1 ++ [Loses 1; Installs 1 [1; 2]] ++ decides B 1 (Removes 0) 1 2
  | Installs_promises =>
      decides A 1 (Adds 3) 0 1 ++ comes_back 1 0 2 ++ decides B 1 (Removes 0) 1 2
  end.

Definition members_in (r : rule) : nat := match r with One_at_a_time => 5 | _ => 3 end.

Definition two_lists (s : state) : Prop :=
  exists e l l', In (e, l) (decided s) /\ In (e, l') (decided s) /\ l <> l'.

(* The last two decisions are about one epoch. *)
Definition decided_twice (r : rule) : bool :=
  let y := world (members_in r) (Some r) in
  match run y (initial y) (story r) with
  | Some s => match decided s with
              | (e, l) :: (e', l') :: _ => (e =? e') && negb (if list_eq_dec Nat.eq_dec l l' then true else false)
              | _ => false
              end
  | None => false
  end.

Lemma every_story_decides_twice : forall r, decided_twice r = true.
Proof. destruct r; vm_compute; reflexivity. Qed.

Theorem each_membership_rule_is_needed : forall r, exists y,
  NoDup (first y) /\ (forall r', r' <> r -> drops y r' = false) /\
  exists s, reachable y s /\ two_lists s.
Proof.
  intros r. exists (world (members_in r) (Some r)). split; [apply seq_NoDup |].
  split; [intros r' other; destruct r, r'; congruence || reflexivity |].
  pose proof (every_story_decides_twice r) as twice. unfold decided_twice in twice.
  set (y := world (members_in r) (Some r)) in *.
  destruct (run y (initial y) (story r)) as [s |] eqn:ran; [| discriminate].
  exists s. split; [eapply run_reachable; [apply at_first | eassumption] |].
  destruct (decided s) as [| [e l] [| [e' l'] d]] eqn:is; try discriminate.
  apply andb_true_iff in twice as [same differ]. apply Nat.eqb_eq in same. subst e'.
  exists e, l, l'. rewrite is. simpl. split; [auto |]. split; [auto |].
  destruct (list_eq_dec Nat.eq_dec l l'); [discriminate | assumption].
Qed.

(* ---- every step occurs -------------------------------------------------------------------------- *)

Definition kind (e : event) : nat :=
  match e with
  | Reads _ => 0 | Begins _ _ _ _ => 1 | Promises _ _ => 2 | Is_promised _ _ => 3 | Accepts _ _ => 4 | Is_accepted _ _ => 5
  | Switches _ _ => 6 | Follows _ _ => 7 | Writes _ => 8 | Loses _ => 9 | Installs _ _ => 10
  end.

Theorem every_step_occurs : exists y events s, obeys y /\ NoDup (first y) /\
  run y (initial y) events = Some s /\ all_occur kind (fun _ => false) events.
Proof.
  set (y := world 3 None). set (events := two_changes ++ [Writes 1]).
  destruct (can_run_to (step y) (initial y) events) as [s ran]; [vm_compute; reflexivity |].
  exists y, events, s. split; [intros r; reflexivity |]. split; [apply seq_NoDup |]. split; [assumption | all_occur].
Qed.
