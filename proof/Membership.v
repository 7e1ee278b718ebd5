(* SPDX-License-Identifier: BSD-2-Clause

   Membership changes of guarded mode: the system. Operators decide, epoch after epoch, which list of
   members comes next, with the members of the present epoch as acceptors (docs/inside/guarded.md, Membership).

   A node has a record or none. None means: its data are lost, or it never had any. The record of a
   node that recovers counts for nothing, so it is none here. A node that has a record is intact.

   Every step has a number, its moment. What a client writes it writes by compare-and-set on the nonce,
   as a change of the record that it has read. So a write that succeeds is one step that changes the
   record as it is at that moment. Any operator may write at any moment after it began, also much later
   or again: delay, loss, reordering and duplication are included. The nonce is the moment of the write.

   An operator is one try of a command: the requests that carry one ballot. An operator that stops is one
   to which nothing happens any more. An operator that tries again is another one. *)
Require Import List Bool Arith.
From Redlock Require Import Arithmetic Runs.
Import ListNotations.

Definition node := nat. (* an id that a record gives to a member; an added server gets a new one *)
Definition operator := nat.

(* The rules that MembershipRuns.v drops, one at a time. *)
Inductive rule :=
| Compares_ballots        (* a node promises only to a higher ballot than the one in its record *)
| Promises_first          (* a majority has promised before any node accepts *)
| Looks_at_promises       (* all these promises were in place at one moment *)
| Takes_over_accepted     (* a change that one of them has accepted is proposed instead *)
| Accepts_unchanged       (* a node accepts only if its record is still that of the promise *)
| Looks_at_acceptances    (* all acceptances of a majority were in place at one moment *)
| One_at_a_time           (* one member is added, or one is removed *)
| Recovers_from_majority  (* a node that lost its data does not count before it has read a majority, *)
| Reads_after_loss        (* which it reads after the loss, *)
| Installs_promises.      (* and takes over what that majority promised and accepted *)

Inductive change :=
| Adds (n : node)
| Removes (n : node)
| Sets_ttl_max (ttl : nat)         (* the members stay *)
| Replaces_all (l : list node).   (* only without One_at_a_time *)

Record system := {
  first : list node;              (* the members that `quorum init` wrote *)
  drops : rule -> bool;
}.

Definition unless (y : system) (r : rule) (b : bool) : bool := drops y r || b.

(* ---- lists of members -------------------------------------------------------------------------- *)

Definition is_majority (held l : list node) : bool :=
  all_differ held && forallb (among l) held && (majority_of (length l) <=? length held).

(* rl_record_change() *)
Definition changed (y : system) (c : change) (l : list node) : option (list node) :=
  match c with
  | Adds n => if among l n then None else Some (l ++ [n])
  | Removes n => if among l n && (1 <? length l) then Some (filter (fun m => negb (m =? n)) l) else None
  | Sets_ttl_max _ => Some l
  | Replaces_all l' => if drops y One_at_a_time && all_differ l' then Some l' else None
  end.

(* ---- states ------------------------------------------------------------------------------------ *)

Record record := {
  nonce : nat;
  epoch : nat;
  members : list node;
  ballot : nat;
  accepted : option (nat * change);   (* with the ballot under which it was accepted. The code also keeps
                                         the change that made the epoch there, with ballot 0: it is none here *)
}.

Definition accepted_ballot (r : record) : nat := match accepted r with Some (b, _) => b | None => 0 end.

(* An answer of an intact node: its record at that moment. *)
Record seen := { at_node : node; moment : nat; shown : record }.

Record command := { of_epoch : nat; base : list node; number : nat (* its ballot *); wish : change }.

Record state := {
  now : nat;
  record_of : node -> option record;
  lost_at : node -> nat;
  log : list seen;                                       (* all that anybody has read *)
  asked : operator -> option command;                    (* the operator has begun *)
  promise_of : operator -> node -> option record;        (* the record with which the node promised *)
  proposed : operator -> option (list node * change);    (* a majority had promised *)
  proposed_at : operator -> nat;
  accepted_at : operator -> node -> option nat;          (* the nonce of the record that accepts *)
  chosen_by : operator -> option (list node);            (* a majority had accepted *)
  chosen_at : operator -> nat;
  decided : list (nat * list node);                      (* each epoch that was decided, with its members *)
}.

Definition initial (y : system) : state := {|
  now := 1;
  record_of := fun n => if among (first y) n then
    Some {| nonce := 0; epoch := 0; members := first y; ballot := 0; accepted := None |} else None;
  lost_at := fun _ => 0;
  log := [];
  asked := fun _ => None;
  promise_of := fun _ _ => None;
  proposed := fun _ => None;
  proposed_at := fun _ => 0;
  accepted_at := fun _ _ => None;
  chosen_by := fun _ => None;
  chosen_at := fun _ => 0;
  decided := [(0, first y)];
|}.

(* ---- changing a state -------------------------------------------------------------------------- *)

Definition with_record s n r := {| now := now s; record_of := update (record_of s) n r; lost_at := lost_at s;
  log := log s; asked := asked s; promise_of := promise_of s; proposed := proposed s; proposed_at := proposed_at s;
  accepted_at := accepted_at s; chosen_by := chosen_by s; chosen_at := chosen_at s; decided := decided s |}.
Definition with_loss s n := {| now := now s; record_of := update (record_of s) n None;
  lost_at := update (lost_at s) n (now s); log := log s; asked := asked s; promise_of := promise_of s;
  proposed := proposed s; proposed_at := proposed_at s; accepted_at := accepted_at s; chosen_by := chosen_by s;
  chosen_at := chosen_at s; decided := decided s |}.
Definition with_seen s o := {| now := now s; record_of := record_of s; lost_at := lost_at s; log := o :: log s;
  asked := asked s; promise_of := promise_of s; proposed := proposed s; proposed_at := proposed_at s;
  accepted_at := accepted_at s; chosen_by := chosen_by s; chosen_at := chosen_at s; decided := decided s |}.
Definition with_asked s p q := {| now := now s; record_of := record_of s; lost_at := lost_at s; log := log s;
  asked := update (asked s) p (Some q); promise_of := promise_of s; proposed := proposed s;
  proposed_at := proposed_at s; accepted_at := accepted_at s; chosen_by := chosen_by s; chosen_at := chosen_at s;
  decided := decided s |}.
Definition with_promises s p f := {| now := now s; record_of := record_of s; lost_at := lost_at s; log := log s;
  asked := asked s; promise_of := update (promise_of s) p f; proposed := proposed s; proposed_at := proposed_at s;
  accepted_at := accepted_at s; chosen_by := chosen_by s; chosen_at := chosen_at s; decided := decided s |}.
Definition with_proposed s p held v := {| now := now s; record_of := record_of s; lost_at := lost_at s;
  log := log s; asked := asked s; promise_of := promise_of s; proposed := update (proposed s) p (Some (held, v));
  proposed_at := update (proposed_at s) p (now s); accepted_at := accepted_at s; chosen_by := chosen_by s;
  chosen_at := chosen_at s; decided := decided s |}.
Definition with_accepted s p n := {| now := now s; record_of := record_of s; lost_at := lost_at s; log := log s;
  asked := asked s; promise_of := promise_of s; proposed := proposed s; proposed_at := proposed_at s;
  accepted_at := update (accepted_at s) p (update (accepted_at s p) n (Some (now s))); chosen_by := chosen_by s;
  chosen_at := chosen_at s; decided := decided s |}.
Definition with_chosen s p held d := {| now := now s; record_of := record_of s; lost_at := lost_at s; log := log s;
  asked := asked s; promise_of := promise_of s; proposed := proposed s; proposed_at := proposed_at s;
  accepted_at := accepted_at s; chosen_by := update (chosen_by s) p (Some held);
  chosen_at := update (chosen_at s) p (now s); decided := d :: decided s |}.
Definition next s := {| now := S (now s); record_of := record_of s; lost_at := lost_at s; log := log s;
  asked := asked s; promise_of := promise_of s; proposed := proposed s; proposed_at := proposed_at s;
  accepted_at := accepted_at s; chosen_by := chosen_by s; chosen_at := chosen_at s; decided := decided s |}.

(* ---- what an operator computes ----------------------------------------------------------------- *)

Fixpoint all_some {A : Type} (l : list (option A)) : option (list A) :=
  match l with
  | [] => Some []
  | Some a :: l => match all_some l with Some l => Some (a :: l) | None => None end
  | None :: _ => None
  end.

(* find_accepted(): the accepted change with the highest ballot, and that ballot. *)
Definition higher_accepted (a b : option (nat * change)) : option (nat * change) :=
  match a, b with
  | Some (i, _), Some (j, _) => if j <? i then a else b
  | None, _ => b
  | _, None => a
  end.
Definition highest_accepted (l : list record) : option (nat * change) :=
  fold_right (fun r found => higher_accepted (accepted r) found) None l.
Definition highest_ballot (l : list record) : nat := fold_right (fun r b => Nat.max (ballot r) b) 0 l.

Definition choice (y : system) (q : command) (l : list record) : change :=
  if drops y Takes_over_accepted then wish q
  else match highest_accepted l with Some (_, c) => c | None => wish q end.

(* The node's record is still the one with this nonce. *)
Definition is_unchanged (s : state) (n : node) (k : nat) : bool :=
  match record_of s n with Some r => nonce r =? k | None => false end.

(* Observations by their places in the log. *)
Definition pick (l : list seen) (places : list nat) : option (list seen) :=
  all_some (map (nth_error l) places).

(* ---- what may happen --------------------------------------------------------------------------- *)

Inductive event :=
| Reads (n : node)                                          (* anybody reads the record of an intact node *)
| Begins (p : operator) (place : nat) (b : nat) (c : change) (* with a record that was read, maybe long ago *)
| Promises (p : operator) (n : node)                        (* a write: step 2 *)
| Is_promised (p : operator) (held : list node)             (* these nodes have promised, all at this moment *)
| Accepts (p : operator) (n : node)                         (* a write: step 3 *)
| Is_accepted (p : operator) (held : list node)             (* these nodes have accepted, all at this moment *)
| Switches (p : operator) (n : node)                        (* a write: step 4, by the operator *)
| Follows (n : node) (place : nat)                          (* step 4, by any client that has read a later epoch *)
| Writes (n : node)                                         (* any other write: an incarnation, a mark *)
| Loses (n : node)
| Installs (n : node) (places : list nat).                  (* the node has recovered *)

Definition act (y : system) (s : state) (e : event) : option state :=
  match e with
  | Reads n =>
      match record_of s n with
      | Some r => Some (with_seen s {| at_node := n; moment := now s; shown := r |})
      | None => None
      end
  | Begins p place b c =>
      match asked s p, nth_error (log s) place with
      | None, Some o =>
          when (0 <? b) (with_asked s p
            {| of_epoch := epoch (shown o); base := members (shown o); number := b; wish := c |})
      | _, _ => None
      end
  | Promises p n =>
      match asked s p, record_of s n with
      | Some q, Some r =>
          let r' := {| nonce := now s; epoch := epoch r; members := members r; ballot := number q;
                       accepted := accepted r |} in
          when ((epoch r =? of_epoch q) && unless y Compares_ballots (ballot r <? number q))
            (with_promises (with_record s n (Some r')) p (update (promise_of s p) n (Some r')))
      | _, _ => None
      end
  | Is_promised p held =>
      match asked s p, proposed s p with
      | Some q, None =>
          let promises := if drops y Promises_first then record_of s else promise_of s p in
          match all_some (map promises held) with
          | Some l =>
              when (is_majority held (base q) &&
                    forallb (fun r => epoch r =? of_epoch q) l &&
                    unless y Looks_at_promises (forallb (fun n =>
                      match promises n with Some r => is_unchanged s n (nonce r) | None => false end) held))
                (with_proposed (with_promises s p promises) p held (choice y q l))
          | None => None
          end
      | _, _ => None
      end
  | Accepts p n =>
      match asked s p, proposed s p, promise_of s p n, record_of s n with
      | Some q, Some (held, c), Some r0, Some r =>
          let r' := {| nonce := now s; epoch := epoch r; members := members r; ballot := number q;
                       accepted := Some (number q, c) |} in
          when (among held n && (epoch r =? of_epoch q) && unless y Accepts_unchanged (nonce r =? nonce r0))
            (with_accepted (with_record s n (Some r')) p n)
      | _, _, _, _ => None
      end
  | Is_accepted p held =>
      match asked s p, proposed s p, chosen_by s p with
      | Some q, Some (_, c), None =>
          match all_some (map (accepted_at s p) held), changed y c (base q) with
          | Some _, Some l =>
              when (is_majority held (base q) &&
                    unless y Looks_at_acceptances (forallb (fun n =>
                      match accepted_at s p n with Some k => is_unchanged s n k | None => false end) held))
                (with_chosen s p held (S (of_epoch q), l))
          | _, _ => None
          end
      | _, _, _ => None
      end
  | Switches p n =>
      match asked s p, proposed s p, chosen_by s p, record_of s n with
      | Some q, Some (_, c), Some _, Some r =>
          match changed y c (base q) with
          | Some l => when (epoch r =? of_epoch q)
              (with_record s n (Some {| nonce := now s; epoch := S (epoch r); members := l; ballot := 0; accepted := None |}))
          | None => None
          end
      | _, _, _, _ => None
      end
  | Follows n place =>
      match record_of s n, nth_error (log s) place with
      | Some r, Some o =>
          when ((epoch r <? epoch (shown o)) && among (members (shown o)) n)
            (with_record s n (Some {| nonce := now s; epoch := epoch (shown o); members := members (shown o);
                                      ballot := 0; accepted := None |}))
      | _, _ => None
      end
  | Writes n =>
      match record_of s n with
      | Some r => Some (with_record s n (Some {| nonce := now s; epoch := epoch r; members := members r;
                                                 ballot := ballot r; accepted := accepted r |}))
      | None => None
      end
  | Loses n =>
      match record_of s n with Some _ => Some (with_loss s n) | None => None end
  | Installs n places =>
      match record_of s n, pick (log s) places with
      | None, Some ((o :: _) as l) =>
          let e := epoch (shown o) in
          when (forallb (fun o => epoch (shown o) =? e) l && among (members (shown o)) n &&
                negb (among (map at_node l) n) &&
                unless y Recovers_from_majority (is_majority (map at_node l) (members (shown o))) &&
                unless y Reads_after_loss (forallb (fun o => lost_at s n <? moment o) l))
            (with_record s n (Some {| nonce := now s; epoch := e; members := members (shown o);
               ballot := if drops y Installs_promises then 0 else highest_ballot (map shown l);
               accepted := if drops y Installs_promises then None else highest_accepted (map shown l) |}))
      | _, _ => None
      end
  end.

Definition step (y : system) (s : state) (e : event) : option state :=
  match act y s e with Some s' => Some (next s') | None => None end.

Notation reachable y := (Runs.reachable (initial y) (step y)).
Notation follows y := (Runs.follows (step y)).
Notation run y := (Runs.run (step y)).
