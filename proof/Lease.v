(* SPDX-License-Identifier: BSD-2-Clause

   src/core/lease.c as functions, statement by statement, for an ordinary lock in classic mode that was
   won, not adopted. Refinement.v proves what they do; proof/extracted/lease.ml compares them with the C
   code.

   What only guarded mode, adopted locks, slots and measured rates of clocks need is left out: fences,
   members that change, `provers` and what they allow. *)
Require Import ZArith NArith List Bool.
From Redlock Require Import Arithmetic Attempt.
Import ListNotations.
Open Scope Z_scope.

Record rules := { renew_every : Z; hold_max : Z; renewals_max : Z; lost_margin : Z }. (* rl_lease_rules *)

Inductive lease_state := None_yet | Is_held | Is_unsure | Is_lost | Is_releasing | Is_released.

Record lease := {
  stage : lease_state;
  lived_since : Z;           (* began *)
  validity_end : Z;
  keys_end : Z;
  renew_at : option Z;       (* None: RL_NEVER *)
  renewals : Z;
  disowned : bool;
  is_proven : bool;          (* proven_members are not none *)
  (* nodes *)
  may_have : mask;           (* asked *)
  kept : mask; late : mask; behind : mask; repaired : mask; set_since : mask; gone : mask;
  (* the round, with its terms; the caller's extension that waits *)
  round_open : bool; by_caller : bool; round_proven : bool;
  round_t1 : Z; round_ttl : Z; round : tally; want_ttl : Z;
  unlocking : tally; unlocking_since : Z;
  (* actions *)
  extend : mask; extend_ttl : Z; repair : mask; catch_up : mask; repair_ttl : Z; unlock : mask;
  notices : N; unlocked : outcome; extended : outcome; waits : bool; wake : option Z;
}.
Definition of_lease (l : lease) : lease :=
  Build_lease (stage l) (lived_since l) (validity_end l) (keys_end l) (renew_at l) (renewals l) (disowned l)
    (is_proven l) (may_have l) (kept l) (late l) (behind l) (repaired l) (set_since l) (gone l) (round_open l)
    (by_caller l) (round_proven l) (round_t1 l) (round_ttl l) (round l) (want_ttl l) (unlocking l)
    (unlocking_since l) (extend l) (extend_ttl l) (repair l) (catch_up l) (repair_ttl l) (unlock l) (notices l)
    (unlocked l) (extended l) (waits l) (wake l).
Notation "x <| f := v |>" := (changed ltac:(with_field of_lease f v) x)
  (at level 12, left associativity, f at next level, v at level 200, only parsing).

Definition fresh_lease : lease :=
  {| stage := None_yet; lived_since := 0; validity_end := 0; keys_end := 0; renew_at := None; renewals := 0;
     disowned := false; is_proven := false; may_have := none; kept := none; late := none; behind := none;
     repaired := none; set_since := none; gone := none; round_open := false; by_caller := false;
     round_proven := false; round_t1 := 0; round_ttl := 0; round := empty_tally; want_ttl := 0;
     unlocking := empty_tally; unlocking_since := 0; extend := none; extend_ttl := 0; repair := none;
     catch_up := none; repair_ttl := 0; unlock := none; notices := 0; unlocked := No_outcome;
     extended := No_outcome; waits := false; wake := None |}.

Inductive lease_what :=
| Starts (until : Z) (asks grants denials : mask) (* rl_lease_start() *)
| Answers (n : nat) (v : answer)                  (* RL_EVENT_VOTE *)
| Unlocks (n : nat) (v : answer)                  (* RL_EVENT_UNLOCKED *)
| Wants (span : Z)                                (* RL_EVENT_EXTEND *)
| Gives_up                                        (* RL_EVENT_RELEASE *)
| Passes.                                         (* RL_EVENT_TICK, RL_EVENT_NODES *)

(* Of every event: the nodes that can be asked, those that owe an answer, and whether renewals must wait. *)
Record lease_event := { what : lease_what; ready : mask; busy : mask; full : bool }.

Definition renewed : N := 1.
Definition unsure : N := 2.
Definition sure : N := 4.
Definition lost : N := 8.

Definition not_before (now : Z) (at_ : option Z) : bool := match at_ with Some t => t <=? now | None => false end.
Definition earlier (t : Z) (at_ : option Z) : option Z :=
  match at_ with Some u => if t <? u then Some t else at_ | None => Some t end.

Definition holds (l : lease) : bool := match stage l with Is_held | Is_unsure => true | _ => false end.
(* rl_lease_validity() *)
Definition validity (l : lease) (now : Z) : Z :=
  if holds l && (now <? validity_end l) then validity_end l - now else 0.

(* rl_lease_void(), rl_lease_disown() *)
Definition void (now : Z) (l : lease) : lease :=
  if holds l && (now <? validity_end l) then l <| validity_end := now |> else l.
Definition disown (l : lease) : lease := l <| disowned := true |> <| renew_at := @None Z |>.

Section Lease.
Variable k : terms.
Variable r : rules.

Definition lost_at (l : lease) : Z := validity_end l - lost_margin r.

Definition drop_rounds (l : lease) : lease :=
  let caller_waits := negb (want_ttl l =? 0) || (round_open l && by_caller l && negb (round_proven l)) in
  let l := if caller_waits then l <| extended := Lost |> else l in
  l <| round_open := false |> <| want_ttl := 0 |>.

Definition lose (l : lease) : lease :=
  let l := drop_rounds l in
  let l := if holds l then l <| notices := N.lor (notices l) lost |> else l in
  l <| stage := Is_lost |>.

(* ---- when the next renewal is due ---- *)

Definition renews (l : lease) : bool := negb (renew_every r =? 0) && negb (disowned l).

Definition renewal_time (base now : Z) (l : lease) : Z :=
  let due := base + renew_every r in
  let due := if due <=? now then now + ms else due in
  if lost_at l <=? due then now + (lost_at l - now) / 2 else due.

Definition schedule_renewal (base now : Z) (l : lease) : lease :=
  if negb (renews l) || (lost_at l <=? now) then l <| renew_at := @None Z |>
  else l <| renew_at := Some (renewal_time base now l) |>.

Definition schedule_retry (now : Z) (l : lease) : lease :=
  if negb (renews l) || negb (holds l) then l
  else let pause := (lost_at l - now) / 4 in
       let pause := Z.max ms (Z.min pause (node_timeout k)) in
       l <| renew_at := Some (now + pause) |>.

Definition renewals_used_up (l : lease) : bool := negb (renewals_max r =? 0) && (renewals_max r <=? renewals l).

Definition renewal_ttl (now : Z) (l : lease) : Z :=
  let hold_left := lived_since l + hold_max r - now in
  if renewals_used_up l then 0
  else if hold_max r =? 0 then ttl k
  else if ttl k - drift k (ttl k) <=? hold_left then ttl k
  else if now + hold_left - validity_end l <=? drift k (ttl k) then 0
  else hold_left - hold_left mod ms.

Definition beyond_limits (span now : Z) (l : lease) : bool :=
  renewals_used_up l ||
  (negb (hold_max r =? 0) && (lived_since l + hold_max r <? now + span - drift k span)).

(* ---- nodes without the key ---- *)

Definition key_ttl (now : Z) (l : lease) : Z :=
  let left := keys_end l - now in
  if round_open l && (left <? round_ttl l) then round_ttl l else left.

Definition set_one (l : lease) (n : nat) : lease :=
  let b := bit n in
  if (quorum k <=? count (or (set_since l) b))%nat then l
  else l <| set_since := or (set_since l) b |> <| repaired := or (repaired l) b |>
         <| may_have := or (may_have l) b |> <| late := less (late l) b |> <| repair := or (repair l) b |>.

Definition set_again (m : mask) (now : Z) (l : lease) : lease :=
  let m := less m (repaired l) in
  let l := fold_left (fun l n => if has m n then set_one l n else l) (seq 0 (nodes k)) l in
  l <| repair_ttl := key_ttl now l |>.

Definition behind_until (l : lease) : Z := Z.max (round_t1 l) (lived_since l) + node_timeout k / 2.
Definition round_deadline (l : lease) : Z := round_t1 l + node_timeout k.

Definition lacks_proof (l : lease) : bool := round_open l && negb (round_proven l).
Definition is_overdue (now : Z) (l : lease) : bool := lacks_proof l && (round_deadline l <=? now).
Definition is_in_time (now : Z) (l : lease) : bool := lacks_proof l && negb (is_overdue now l).

Definition give_to_late (e : lease_event) (now : Z) (l : lease) : lease :=
  let l := if behind_until l <=? now then l <| behind := none |> else l in
  let given := less (and (late l) (ready e)) (behind l) in
  if negb (holds l) || is_in_time now l || is_none given then l
  else let had := may_have l in
       let l := l <| late := less (late l) given |> <| repaired := less (repaired l) given |>
                  <| catch_up := and given had |> in
       set_again (less given had) now l.

(* ---- a round of extensions ---- *)

Definition become_unsure (now : Z) (l : lease) : lease :=
  schedule_retry now
    match stage l with
    | Is_held => l <| stage := Is_unsure |> <| notices := N.lor (notices l) unsure |>
    | _ => l
    end.

Definition round_failed (now : Z) (l : lease) : lease :=
  let l := l <| round_open := false |> in
  become_unsure now (if by_caller l then l <| extended := No_quorum |> else l).

Definition open_round (e : lease_event) (span : Z) (for_caller : bool) (now : Z) (l : lease) : lease :=
  let asks := tally_open (nodes k) (less (ready e) (repair l)) in
  let l := l <| round := asks |> <| round_open := true |> <| by_caller := for_caller |> <| round_proven := false |>
             <| repaired := none |> <| round_t1 := now |> <| round_ttl := span |> in
  if tally_hopeless (quorum k) asks
  then round_failed now (l <| round := tally_open (nodes k) none |>)
  else let unasked := less (all (nodes k)) (asked asks) in
       l <| late := unasked |> <| behind := and unasked (busy e) |> <| extend := asked asks |> <| extend_ttl := span |>.

(* It counts from before its requests were sent, and never shortens. *)
Definition prolong (l : lease) : lease :=
  let until := round_t1 l + round_ttl l - drift k (round_ttl l) in
  if validity_end l <? until
  then l <| validity_end := until |> <| keys_end := round_t1 l + round_ttl l |> else l.

Definition report_won (now : Z) (l : lease) : lease :=
  let l := match stage l with Is_unsure => l <| notices := N.lor (notices l) sure |> | _ => l end in
  let l := l <| stage := Is_held |> in
  let l := if by_caller l then l <| extended := Ok |> else l <| notices := N.lor (notices l) renewed |> in
  if negb (by_caller l) || (ttl k <=? round_ttl l) then schedule_renewal (round_t1 l) now l else l.

Definition round_won (now : Z) (l : lease) : lease :=
  let l := l <| round_proven := true |> <| set_since := less (set_since l) (asked (round l)) |> <| gone := none |>
             <| is_proven := true |> <| renewals := renewals l + 1 |> in
  let l := report_won now (prolong l) in
  set_again (absent (round l)) now l.

Definition majority_gone (not_ours : mask) : bool := (nodes k - count not_ours <? quorum k)%nat.

(* The new state, and whether the round goes on. *)
Definition regains (now : Z) (l : lease) : lease * bool :=
  let never := less (absent (round l)) (gone l) in
  if negb (holds l) || (count (or (or (granted (round l)) never) (pending (round l))) <? quorum k)%nat then (l, false)
  else let l := set_again never now l in
       let l := l <| round := (round l) <| absent := less (absent (round l)) (repair l) |>t |> in
       (l, negb (tally_hopeless (quorum k) (round l))).

Definition is_proof (l : lease) : bool :=
  tally_won (quorum k) (round l) && negb (is_none (less (granted (round l)) (set_since l))).

(* rl_tally_hopeless() and may_raise_again() exclude each other where no fence is raised. *)
Definition judge (e : lease_event) (now : Z) (l : lease) : lease :=
  let not_ours := or (denied (round l)) (absent (round l)) in
  if round_proven l then set_again (and (absent (round l)) (ready e)) now l
  else if is_proof l then round_won now l
  else if majority_gone not_ours then lose l
  else if tally_hopeless (quorum k) (round l) && negb (majority_gone (or not_ours (pending (round l))))
  then let (l, goes_on) := regains now l in if goes_on then l else round_failed now l
  else if is_none (pending (round l)) then round_failed now l
  else l.

Definition judge_round (e : lease_event) (now : Z) (l : lease) : lease :=
  let l := judge e now l in
  if is_none (pending (round l)) then l <| round_open := false |> else l.

Definition note_key (e : lease_event) (n : nat) (v : answer) (now : Z) (l : lease) : lease :=
  let b := bit n in
  let first := (renewals l =? 0) && negb (round_open l) in
  match v with
  | Granted => l <| kept := or (kept l) b |>
  | Denied =>
      let l := if first && (now <? behind_until l) then l <| late := or (late l) b |> <| behind := or (behind l) b |> else l in
      l <| gone := or (gone l) (and (kept l) b) |> <| kept := less (kept l) b |>
  | Absent => l <| gone := or (gone l) (and (kept l) b) |> <| kept := less (kept l) b |>
  | Failed => if has (ready e) n then l else l <| late := or (late l) b |>
  | No_answer | Stale => l
  end.

Definition may_ask_again (e : lease_event) : bool := (quorum k <=? count (ready e))%nat.

Definition is_regained (n : nat) (v : answer) (l : lease) : bool :=
  round_open l && match v with Granted => true | _ => false end && has (and (repaired l) (pending (round l))) n.

Definition regained (e : lease_event) (now : Z) (l : lease) : lease :=
  let span := if by_caller l then round_ttl l else renewal_ttl now l in
  if negb (span =? 0) && may_ask_again e then open_round e span (by_caller l) now l else l.

Definition vote (e : lease_event) (n : nat) (v : answer) (now : Z) (l : lease) : lease :=
  if (nodes k <=? n)%nat then l
  else let l := if holds l then note_key e n v now l else l in
       if is_regained n v l then regained e now l
       else if round_open l && takes (nodes k) (round l) n v
       then judge_round e now (l <| round := tally_vote (round l) n v |>)
       else match v with
            | Absent => if holds l && negb (round_open l) then set_again (bit n) now l else l
            | _ => l
            end.

Definition close_late_round (e : lease_event) (now : Z) (l : lease) : lease :=
  if negb (round_open l) || (now <? round_deadline l) then l
  else if renews l && negb (by_caller l) && negb (is_proof l)
  then match renew_at l with None => become_unsure now l | Some _ => l end
  else let l := l <| round := tally_close (round l) |> in
       let l := if round_proven l then l else if is_proof l then judge_round e now l else round_failed now l in
       l <| round_open := false |>.

Definition renew (e : lease_event) (now : Z) (l : lease) : lease :=
  if is_overdue now l && negb (may_ask_again e) then schedule_retry now l
  else let span := renewal_ttl now l in
       let must_wait := full e && negb (span =? 0) in
       let l := l <| waits := must_wait |> in
       if must_wait then l
       else let l := l <| renew_at := @None Z |> in
            if span =? 0 then l else open_round e span false now l.

Definition next_round (e : lease_event) (now : Z) (l : lease) : lease :=
  if is_in_time now l then l
  else if negb (want_ttl l =? 0)
  then let span := want_ttl l in
       let l := l <| want_ttl := 0 |> in
       if beyond_limits span now l then l <| extended := Limit |> else open_round e span true now l
  else if holds l && not_before now (renew_at l) then renew e now l
  else l.

Definition want_extension (span : Z) (l : lease) : lease :=
  if holds l then l <| want_ttl := span |> else l <| extended := Lost |>.

(* ---- release ---- *)

Inductive ownership := Open | Was_ours | Not_ours | Uncertain.

Definition by_list (l : lease) : ownership :=
  let t := unlocking l in
  let deleted := count (and (granted t) (kept l)) in
  let not_ours := count (or (denied t) (absent t)) in
  if (quorum k <=? deleted)%nat then Was_ours
  else if (nodes k - not_ours <? quorum k)%nat then Not_ours
  else if (quorum k <=? deleted + count (and (pending t) (kept l)))%nat then Open
  else if negb (is_proven l) && (nodes k - not_ours - count (pending t) <? quorum k)%nat then Open
  else Uncertain.

Definition count_unlocked (l : lease) : lease :=
  let over o := l <| unlocked := o |> <| stage := Is_released |> in
  match by_list l with
  | Was_ours => over Ok
  | Not_ours => over Lost
  | Uncertain => over No_quorum
  | Open => l
  end.

Definition let_go (now : Z) (l : lease) : lease :=
  match stage l with
  | Is_releasing | Is_released => l
  | _ =>
      let l := if holds l then l else l <| is_proven := false |> in
      let l := match stage l with Is_lost => l | _ => l <| kept := all (nodes k) |> end in
      let l := drop_rounds l <| stage := Is_releasing |> in
      let asks := tally_open (nodes k) (may_have l) in
      let l := l <| unlocking := asks <| absent := failed asks |>t <| failed := none |>t |> in
      count_unlocked (l <| unlocking_since := now |> <| unlock := may_have l |>)
  end.

Definition is_releasing (l : lease) : bool := match stage l with Is_releasing => true | _ => false end.

Definition note_unlocked (n : nat) (v : answer) (l : lease) : lease :=
  if is_releasing l && takes (nodes k) (unlocking l) n v
  then count_unlocked (l <| unlocking := tally_vote (unlocking l) n v |>) else l.

Definition close_late_release (now : Z) (l : lease) : lease :=
  if negb (is_releasing l) || (now <? unlocking_since l + node_timeout k) then l
  else count_unlocked (l <| unlocking := tally_close (unlocking l) |>).

(* ---- the step ---- *)

Definition start_lease (until : Z) (asks grants denials : mask) (now : Z) (l : lease) : lease :=
  let asks := and asks (all (nodes k)) in
  let has_it := and grants asks in
  let limit := now + hold_max r in
  let cut := if negb (hold_max r =? 0) && (limit <? until) then limit else until in
  let l := l <| lived_since := now |> <| may_have := asks |> <| kept := has_it |> <| set_since := less asks has_it |>
             <| late := or (less (all (nodes k)) asks) denials |> <| behind := denials |>
             <| keys_end := until + drift k (ttl k) |> <| validity_end := cut |> in
  if cut <=? now then l <| notices := N.lor (notices l) lost |> <| stage := Is_lost |>
  else schedule_renewal now now (l <| is_proven := true |> <| stage := Is_held |>).

Definition wake_of (now : Z) (l : lease) : option Z :=
  if is_releasing l then Some (unlocking_since l + node_timeout k)
  else
    let at_ := if holds l then Some (lost_at l) else None in
    let noted := is_overdue now l && match renew_at l with Some _ => true | None => false end in
    let at_ := if round_open l && negb noted then earlier (round_deadline l) at_ else at_ in
    let at_ := if holds l && negb (is_none (and (late l) (behind l))) then earlier (behind_until l) at_ else at_ in
    match renew_at l with
    | Some due => if holds l && negb (waits l) && negb (is_in_time now l) then earlier due at_ else at_
    | None => at_
    end.

Definition cleared_lease (l : lease) : lease :=
  l <| extend := none |> <| extend_ttl := 0 |> <| repair := none |> <| catch_up := none |> <| repair_ttl := 0 |>
    <| unlock := none |> <| notices := 0%N |> <| unlocked := No_outcome |> <| extended := No_outcome |>
    <| waits := false |> <| wake := @None Z |>.

(* The beginning, and the loss that the time brings: before any event. *)
Definition begin_step (e : lease_event) (now : Z) (l : lease) : lease :=
  let l := match what e, stage l with
           | Starts until asks grants denials, None_yet => start_lease until asks grants denials now l
           | _, _ => l
           end in
  if holds l && (lost_at l <=? now) then lose l else l.

Definition take_event (e : lease_event) (now : Z) (l : lease) : lease :=
  match what e with
  | Answers n v => vote e n v now l
  | Unlocks n v => note_unlocked n v l
  | Wants span => want_extension span l
  | Gives_up => let_go now l
  | _ => l
  end.

Definition lease_step (e : lease_event) (now : Z) (l : lease) : lease :=
  let l := take_event e now (begin_step e now (cleared_lease l)) in
  let l := match what e with Answers _ _ => l | _ => close_late_round e now l end in
  let l := match what e with Unlocks _ _ => l | _ => close_late_release now l end in
  let l := if holds l then next_round e now l else l in
  let l := give_to_late e now l in
  l <| wake := wake_of now l |>.

End Lease.
