(* SPDX-License-Identifier: BSD-2-Clause

   Slots: runs. A run in which all rules are followed, and clients hold two slots and hand them on; for
   each rule a run in which only this rule is not followed, and more than K clients hold; and why
   holders are not counted. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic ClassicNeeds Slots.
Import ListNotations.
Open Scope Z_scope.

(* Three servers, clocks that are right, and the settings of the library, as in ClassicNeeds.v. A and B
   are given two slots, and so are C and D. E is given three. *)
Definition D : attempt := 3%nat.
Definition E : attempt := 4%nat.

Definition drops (dropped : option rule) (r : rule) : bool :=
  match dropped, r with
  | Some Compares_numbers, Compares_numbers | Some Counts_one_slot, Counts_one_slot
  | Some First_moves_nothing, First_moves_nothing => true
  | _, _ => false
  end.

Definition but (dropped : option rule) : system := {|
  base := without None;
  number_of := fun c => Some (if (c =? 4)%nat then 3 else 2)%nat;
  order_of := fun c => match c with 4 => [3; 2; 1] | 1 | 2 => [2; 1] | _ => [1; 2] end%nat;
  compares_numbers := negb (drops dropped Compares_numbers);
  counts_one_slot := negb (drops dropped Counts_one_slot);
  keeps_own_slot := false;
  first_comes_first := negb (drops dropped First_moves_nothing);
|}.

Definition at_node (n : node) (r : request) : event := Arrives n n r.
Definition first (c : attempt) (t : time) : request := ask Choose c t second.

(* An attempt that begins at t, is given the slot by two nodes, and has it. *)
Definition takes_slot (c : attempt) (t : time) (n m : node) (k : slot) : list event :=
  [Begins c second; at_node n (first c t); at_node m (first c t); Settles c k; Wins c (t + validity)].

Arguments takes_slot c t n m k%nat.

Definition story (dropped : rule) : list event :=
  match dropped with
  | Compares_numbers => (* A and B hold two slots, and E, which was given three, holds the third *)
      takes_slot A 0 node_0 node_1 1 ++ takes_slot B 0 node_0 node_1 2 ++ takes_slot E 0 node_0 node_1 3
  | Counts_one_slot => (* B is given slot 2 by node 0, and slot 1 by node 2 *)
      takes_slot A 0 node_0 node_1 1 ++ takes_slot C 0 node_1 node_2 2 ++ takes_slot B 0 node_0 node_2 1
  | First_moves_nothing => (* A holds slot 2. A copy of its first request comes when slot 1 is free *)
      [Begins D second; at_node node_0 (first D 0); at_node node_1 (first D 0)] ++
      takes_slot A 0 node_0 node_1 2 ++
      [Releases D; at_node node_0 (ask Release D 0 0); at_node node_1 (ask Release D 0 0);
       at_node node_0 (first A 0)] ++
      takes_slot B 0 node_0 node_2 2 ++ takes_slot C 0 node_1 node_2 1
  end.

(* ---- running them ------------------------------------------------------------------------------ *)

Definition holds_b (y : system) (s : state) (c : attempt) (k : slot) : bool :=
  match phase_of s c with Holding k' until => (k' =? k)%nat && (client_clock (base y) c (now s) <? until) | _ => false end.

Lemma holds_is_so : forall y s c k, holds_b y s c k = true -> has_slot y s c k.
Proof.
  intros y s c k is. unfold holds_b, has_slot in *. destruct (phase_of s c) as [| | k' until |]; try discriminate.
  apply andb_true_iff in is as [same valid]. apply Nat.eqb_eq in same. subst. exists until. split; [reflexivity | lia].
Qed.

(* After the run these clients hold these slots. *)
Definition ends_with (y : system) (events : list event) (holders : list (attempt * slot)) : bool :=
  match run y initial events with
  | Some s => forallb (fun h => holds_b y s (fst h) (snd h)) holders
  | None => false
  end.

(* The holders at the end of each story: more than the two that the first of them was told of. *)
Definition holders_of (dropped : rule) : list (attempt * slot) :=
  match dropped with
  | Compares_numbers => [(A, 1%nat); (B, 2%nat); (E, 3%nat)]
  | Counts_one_slot => [(A, 1%nat); (C, 2%nat); (B, 1%nat)]
  | First_moves_nothing => [(A, 2%nat); (B, 2%nat); (C, 1%nat)]
  end.

Lemma every_story_ends_with_three : forall r, ends_with (but (Some r)) (story r) (holders_of r) = true.
Proof. destruct r; vm_compute; reflexivity. Qed.

Lemma orders_fit_all : forall dropped, orders_fit (but dropped).
Proof.
  intros dropped c k. unfold but, order_of, number_of, slots_max.
  destruct c as [| [| [| [| [| c]]]]]; simpl; intros of_order;
    (split; [| intros number same; inversion same; subst]); intuition lia.
Qed.

Lemma others_are_followed : forall r r', r' <> r -> follows r' (but (Some r)).
Proof. intros r r' other. destruct r, r'; try congruence; simpl; auto. Qed.

Lemma all_are_followed : forall r, follows r (but None).
Proof. intros []; simpl; auto. Qed.

(* A client was given a number, and more hold a slot. *)
Definition too_many (y : system) (s : state) : Prop :=
  exists c k number, has_slot y s c k /\ number_of y c = Some number /\
  exists holders, NoDup holders /\ (number < length holders)%nat /\
    forall d, In d holders -> number_of y d <> None /\ exists j, has_slot y s d j.

Theorem each_slot_rule_is_needed : forall r, exists y,
  assumed_for_locks y /\ orders_fit y /\ (forall r', r' <> r -> follows r' y) /\
  exists s, reachable y s /\ too_many y s.
Proof.
  intros r. exists (but (Some r)). split; [exact all_hold |]. split; [apply orders_fit_all |].
  split; [apply others_are_followed |].
  pose proof (every_story_ends_with_three r) as ends. unfold ends_with in ends.
  destruct (run (but (Some r)) initial (story r)) as [s |] eqn:ran; [| discriminate].
  rewrite forallb_forall in ends.
  exists s. split; [eapply run_reachable; [apply at_first | eassumption] |].
  assert (has : forall h, In h (holders_of r) -> has_slot (but (Some r)) s (fst h) (snd h))
    by (intros h h_in; apply holds_is_so; now apply ends).
  exists A, (snd (hd (A, 0%nat) (holders_of r))), 2%nat.
  split; [destruct r; apply (has (A, _)); simpl; auto |]. split; [reflexivity |].
  exists (map fst (holders_of r)). split; [| split].
  - destruct r; simpl; repeat constructor; simpl; intuition discriminate.
  - destruct r; simpl; lia.
  - intros d d_in. split; [simpl; discriminate |].
    apply in_map_iff in d_in as (h & <- & h_in). exists (snd h). now apply has.
Qed.

(* ---- with all rules, clients hold the slots and hand them on ------------------------------------ *)

(* A and D ask at the same time, both for slot 1 first, and the nodes give them different slots. A
   settles on slot 1, and D on slot 2. Node 1 had given each the slot of the other: A leaves it, and D is
   moved. A extends. E, which was given three slots, finds slot 3 free, and is refused. *)
Definition sharing : list event :=
  let t := 600 * ms in
  [Begins A second; Begins D second;
   at_node node_0 (first A 0); at_node node_1 (first D 0); at_node node_1 (first A 0);
   at_node node_0 (first D 0); at_node node_2 (first A 0); at_node node_2 (first D 0);
   Settles A 1%nat; Wins A validity; Settles D 2%nat; Wins D validity;
   Leaves A; at_node node_1 (ask (Leave 1%nat) A 0 0); at_node node_1 (ask (Take 2%nat) D 0 second);
   Time_passes t; Begins_extension A second;
   at_node node_0 (ask (Extend 1%nat) A t second); at_node node_2 (ask (Extend 1%nat) A t second);
   Extended A t second (t + validity);
   Begins E second; at_node node_0 (first E t)].

(* D's slot has ended, A releases, and another request of E is granted. *)
Definition handing_on : list event :=
  let t := 1200 * ms in
  [Time_passes (600 * ms); Ends node_0 2%nat; Ends node_1 2%nat; Ends node_2 2%nat;
   Releases A; at_node node_0 (ask Release A t 0); at_node node_2 (ask Release A t 0);
   at_node node_1 (first E (600 * ms)); at_node node_2 (first E (600 * ms)); Settles E 3%nat;
   Wins E (600 * ms + validity)].

Definition owner_at (y : system) (events : list event) (m : server) (k : slot) : option attempt :=
  match run y initial events with
  | Some s => match keys s m k with Some key => Some (owner key) | None => None end
  | None => None
  end.

Example clients_share_slots :
  assumed_for_locks (but None) /\ orders_fit (but None) /\ (forall r, follows r (but None)) /\
  ends_with (but None) sharing [(A, 1%nat); (D, 2%nat)] = true /\
  owner_at (but None) sharing node_1 2%nat = Some D /\ owner_at (but None) sharing node_0 3%nat = None /\
  ends_with (but None) (sharing ++ handing_on) [(E, 3%nat)] = true.
Proof.
  split; [exact all_hold |]. split; [apply orders_fit_all |]. split; [apply all_are_followed |].
  repeat split; vm_compute; reflexivity.
Qed.

(* ---- every step occurs -------------------------------------------------------------------------- *)

Definition kind (e : event) : nat :=
  match e with
  | Time_passes _ => 0 | Begins _ _ => 1 | Arrives _ _ _ => 2 | Ends _ _ => 3 | Loses _ _ => 4 | Settles _ _ => 5
  | Leaves _ => 6 | Wins _ _ => 7 | Begins_extension _ _ => 8 | Extended _ _ _ _ => 9 | Repairs _ _ => 10
  | Cuts _ _ => 11 | Releases _ => 12
  end.
Definition is_loss (e : event) : bool := match e with Loses _ _ => true | _ => false end.

Definition shares_and_cuts : list event := sharing ++ handing_on ++ [Repairs E second; Cuts E 0].

(* With all rules and assumptions, every step but a loss, which is a step of systems without Keys_are_kept. *)
Theorem every_step_occurs : exists y events s, assumed_for_locks y /\ orders_fit y /\ (forall r, follows r y) /\
  run y initial events = Some s /\ all_occur kind is_loss events.
Proof.
  destruct (can_run_to (step (but None)) initial shares_and_cuts) as [s ran]; [vm_compute; reflexivity |].
  exists (but None), shares_and_cuts, s. split; [exact all_hold |]. split; [apply orders_fit_all |].
  split; [apply all_are_followed |]. split; [assumption | all_occur].
Qed.

(* ---- why holders are not counted --------------------------------------------------------------- *)

(* The other way to make a semaphore: each node has a set of holders, grants where the set has fewer
   than K members (ZCARD < K), and a client with a majority of grants holds. All this happens inside the
   validity of each of them, so there is no time here. *)
Record counted := { set_of : node -> list attempt }.

Definition nobody : counted := {| set_of := fun _ => [] |}.

Definition asks (number : nat) (w : counted) (n : node) (c : attempt) : counted :=
  if (length (set_of w n) <? number)%nat && negb (among (set_of w n) c)
  then {| set_of := update (set_of w) n (c :: set_of w n) |} else w.

Inductive counts_to (number : nat) : counted -> Prop :=
| nobody_yet : counts_to number nobody
| one_asks : forall w n c, counts_to number w -> counts_to number (asks number w n c).

Definition granted_by (nodes : nat) (w : counted) (c : attempt) : nat :=
  length (filter (fun n => among (set_of w n) c) (seq 0 nodes)).
Definition holds_counted (nodes : nat) (w : counted) (c : attempt) : Prop :=
  (majority_of nodes <= granted_by nodes w c)%nat.

(* No node ever has more than K members in its set. *)
Lemma no_set_is_too_large : forall number w, counts_to number w -> forall n, (length (set_of w n) <= number)%nat.
Proof.
  induction 1 as [| w n c before IH]; intros m; [simpl; lia |].
  unfold asks. destruct (length (set_of w n) <? number)%nat eqn:fewer; [| apply IH].
  destruct (negb (among (set_of w n) c)); [| apply IH]. simpl. apply Nat.ltb_lt in fewer.
  destruct (Nat.eq_dec m n) as [-> |]; [rewrite update_same; simpl; lia | now rewrite update_other].
Qed.

(* And still, with 3 nodes and K = 2, three clients hold: each two of them share one node. *)
Theorem counting_is_unsound : exists w, counts_to 2 w /\
  (forall n, length (set_of w n) <= 2)%nat /\
  forall c, In c [A; B; C] -> holds_counted 3 w c.
Proof.
  assert (run : exists w, counts_to 2 w /\ forall c, In c [A; B; C] -> holds_counted 3 w c).
  { exists (fold_left (fun w a => asks 2 w (fst a) (snd a))
      [(node_0, A); (node_1, A); (node_1, B); (node_2, B); (node_0, C); (node_2, C)] nobody). split.
    - simpl. repeat apply one_asks. apply nobody_yet.
    - intros c c_in. simpl in c_in. unfold holds_counted. apply Nat.leb_le.
      destruct c_in as [<- | [<- | [<- | []]]]; vm_compute; reflexivity. }
  destruct run as (w & counted_ & hold). exists w. split; [assumption |]. split; [| assumption].
  intros n. now apply no_set_is_too_large.
Qed.
