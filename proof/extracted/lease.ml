(* SPDX-License-Identifier: BSD-2-Clause

   Compares what attempts and leases of src/core did with what their copies in the proof do (proof/README.md).
   usage: tests/proof/lease COUNT SEED DEPTH1 DEPTH2 DEPTH3 | lease COUNT
   Each record is 60 numbers of 64 bits: an event in a state that has a number, and what the C code made of it;
   tests/proof/lease.c writes them. Exit 0: all agree. *)

open Proved

let ins = 14 and outs = 46
let fields = ins + outs

let attempt_names =
  [| "state"; "result"; "asked"; "granted"; "denied"; "absent"; "failed"; "t1"; "validity_end"; "fresh_token"; "acquire";
     "release"; "outcome"; "wake_at"; "other actions" |]
let lease_names =
  [| "state"; "began"; "validity_end"; "keys_end"; "renew_at"; "renewals"; "disowned"; "asked"; "kept"; "late"; "behind";
     "repaired"; "set"; "gone"; "round_open"; "round_by_caller"; "round_proven"; "round_t1"; "round_ttl"; "round.asked";
     "round.granted"; "round.denied"; "round.absent"; "round.failed"; "want_ttl"; "unlocking.asked"; "unlocking.granted";
     "unlocking.denied"; "unlocking.absent"; "unlocking.failed"; "unlocking_since"; "extend"; "extend_ttl"; "repair";
     "catch_up"; "repair_ttl"; "release"; "notices"; "outcome"; "extend_outcome"; "renewal_waits"; "wake_at"; "validity";
     "validity later"; "other actions" |]

type machine = Attempt of attempt | Lease of lease

(* As in src/core/core.h. *)
let answers = [| No_answer; Granted; Denied; Absent; Stale; Failed |]
let events = [| "start"; "vote"; "unlocked"; "hint"; "wake"; "nodes"; "tick"; "cancel"; "extend"; "release" |]
let answer_names = [| "none"; "granted"; "denied"; "absent"; "stale"; "failed" |]
let number_of_outcome = function
  | No_outcome -> 0 | Ok -> 1 | Held -> 2 | No_quorum -> 3 | Expired -> 4 | Lost -> 5 | Cancelled -> 6 | Limit -> 7
let number_of_stage = function
  | None_yet -> 0 | Is_held -> 1 | Is_unsure -> 2 | Is_lost -> 3 | Is_releasing -> 4 | Is_released -> 5
let number_of_state = function Fresh -> 0 | Voting -> 1 | Won -> 3 | Failed_ -> 4
let truth b = if b then 1 else 0
let at = function Some t -> t | None -> -1

(* ---- what is compared ---- *)

let place = ref 0
let wanted = Array.make outs 0
let put n = wanted.(!place) <- n; incr place
let put_tally t = put t.asked; put t.granted; put t.denied; put t.absent; put t.failed

let put_attempt a =
  put (number_of_state a.state); put (number_of_outcome a.result); put_tally a.votes; put a.t1; put a.win_end;
  put (truth (a.acquire <> 0)); put a.acquire; put a.release; put (number_of_outcome a.ended); put (at a.wake_at); put 0

let put_lease l now =
  put (number_of_stage l.stage); put l.lived_since; put l.validity_end; put l.keys_end; put (at l.renew_at); put l.renewals;
  put (truth l.disowned lor (truth l.is_proven lsl 1));
  put l.may_have; put l.kept; put l.late; put l.behind; put l.repaired; put l.set_since; put l.gone;
  put (truth l.round_open); put (truth l.by_caller); put (truth l.round_proven); put l.round_t1;
  (* The C code keeps them elsewhere, and only while they are needed. *)
  put (if l.round_open then l.round_ttl else 0);
  put_tally (if l.round_open then l.round else empty_tally);
  put l.want_ttl;
  let releases = l.stage = Is_releasing in
  put_tally (if releases then l.unlocking else empty_tally);
  put (if releases then l.unlocking_since else 0);
  put l.extend; put l.extend_ttl; put l.repair; put l.catch_up; put l.repair_ttl; put l.unlock; put l.notices;
  put (number_of_outcome l.unlocked); put (number_of_outcome l.extended); put (truth l.waits); put (at l.wake);
  put (validity l now); put (validity l (now + 1)); put 0

(* ---- the states ---- *)

let terms = ref { nodes = 1; ttl = 1; drift_ppm = 0; drift_fixed = 0; node_timeout = 1; validity_min = 0 }
let rules = ref { renew_every = 0; hold_max = 0; renewals_max = 0; lost_margin = 0 }
let fresh_machine = Attempt fresh_attempt
let level = ref (Array.make 1024 fresh_machine)
let next = ref (Array.make 1024 fresh_machine)

let keep states i machine =
  if i >= Array.length !states then states := Array.append !states (Array.make (i + 1) fresh_machine);
  !states.(i) <- machine

(* Where the C code has the state that a step led to: see SEEN and IN_PLACE there. *)
let settle r machine =
  if r.(2) >= 0 then keep next r.(2) machine else if r.(2) = -2 then !level.(r.(1)) <- machine

let lines = ref 0
let last = Array.make 310 [||] (* the last records, for a failure *)
let seen = Hashtbl.create 64
let count what = match Hashtbl.find_opt seen what with Some n -> incr n | None -> Hashtbl.add seen what (ref 1)

let text r =
  if r.(0) = 0 || r.(0) = 2 then
    Printf.sprintf "a new %s: %d nodes, ttl %d, drift %d ppm and %d, node timeout %d, validity_min %d, renew_every %d, \
                    hold_max %d, renewals_max %d, lost_margin %d"
      (if r.(0) = 0 then "attempt" else "lease") r.(3) r.(4) r.(5) r.(6) r.(7) r.(8) r.(9) r.(10) r.(11) r.(12)
  else if r.(0) = 6 then "the next level"
  else
    Printf.sprintf "from %d to %d at %d: %s%s, ready %x, busy %x%s, %d, asked %x, granted %x, denied %x" r.(1) r.(2) r.(3)
      (if r.(0) = 4 then "void" else if r.(0) = 5 then "disown" else events.(r.(4)))
      (if r.(4) = 1 || r.(4) = 2 then Printf.sprintf " of node %d: %s" r.(5) answer_names.(r.(6)) else "")
      r.(7) r.(8) (if r.(9) = 1 then ", full" else "") r.(10) r.(11) r.(12) r.(13)

(* The walk that led there, as far as it is known. *)
let fail names what i expected r =
  let oldest = max 0 (!lines - Array.length last + 1) in
  let rec begins line = if line <= oldest || (let k = last.(line mod Array.length last).(0) in k = 0 || k = 2) then line else begins (line - 1) in
  let first = max oldest (begins !lines) in
  for line = first to !lines do Printf.eprintf "%s\n" (text last.(line mod Array.length last)) done;
  Printf.eprintf "the C code has %s = %d\nthe proof says: %s: %s = %d\n" names.(i) r.(ins + i) what names.(i) expected;
  exit 1

let compare_all names what r =
  for i = 0 to !place - 1 do if r.(ins + i) <> wanted.(i) then fail names what i wanted.(i) r done

(* ---- events ---- *)

let attempt_event r =
  match r.(4) with
  | 0 -> Start r.(7)
  | 1 -> Vote (r.(5), answers.(r.(6)))
  | 7 -> Cancel
  | 5 | 6 -> Tick
  | _ -> failwith "an attempt has no such event"

let lease_event r =
  let what =
    match r.(4) with
    | 0 -> Starts (r.(10), r.(11), r.(12), r.(13))
    | 1 -> Answers (r.(5), answers.(r.(6)))
    | 2 -> Unlocks (r.(5), answers.(r.(6)))
    | 8 -> Wants r.(10)
    | 9 -> Gives_up
    | 5 | 6 | 7 -> Passes
    | _ -> failwith "a lease has no such event"
  in
  { what; ready = r.(7); busy = r.(8); full = r.(9) = 1 }

(* A lease that begins where an attempt was won begins with what that attempt has. *)
let lease_before r =
  match !level.(r.(1)) with
  | Lease l -> l
  | Attempt a ->
      place := 0;
      put a.win_end; put a.votes.asked; put a.votes.granted; put a.votes.denied;
      for i = 0 to 3 do
        if r.(10 + i) <> wanted.(i) then fail [| "validity_end"; "asked"; "granted"; "denied" |] "start" i wanted.(i) r
      done;
      if r.(4) <> 0 || a.state <> Won then failwith "this attempt is not won";
      count "a lease of a won attempt";
      fresh_lease

let note_attempt a =
  if a.ended <> No_outcome then
    count (match a.ended with Ok -> "won" | Held -> "held" | No_quorum -> "no quorum" | Expired -> "expired" | _ -> "cancelled")

let note_lease before l =
  if l.extended = Ok || l.notices land 1 <> 0 then count "a round proven";
  if l.notices land 2 <> 0 then count "unsure";
  if l.notices land 4 <> 0 then count "sure again";
  if l.notices land 8 <> 0 then count "lost";
  if l.extended = Limit then count "beyond the limit";
  if l.repair <> 0 then count "set again";
  if l.catch_up <> 0 then count "extended late";
  if l.waits then count "a renewal that waits";
  if l.validity_end > before.validity_end && before.stage <> None_yet then count "prolonged";
  match l.unlocked with
  | Ok -> count "released" | Lost -> count "released: was lost" | No_quorum -> count "released: unknown" | _ -> ()

let judge r =
  place := 0;
  match r.(0) with
  | 0 | 2 ->
      terms := { nodes = r.(3); ttl = r.(4); drift_ppm = r.(5); drift_fixed = r.(6); node_timeout = r.(7); validity_min = r.(8) };
      rules := { renew_every = r.(9); hold_max = r.(10); renewals_max = r.(11); lost_margin = r.(12) };
      let fresh = if r.(0) = 0 then fresh_machine else Lease fresh_lease in
      (* of both: the levels are exchanged behind it, or it is a walk, which stays in one *)
      keep next r.(2) fresh; keep level r.(2) fresh
  | 6 -> let l = !level in level := !next; next := l
  | 1 ->
      let a = match !level.(r.(1)) with Attempt a -> a | Lease _ -> failwith "this is a lease" in
      let a = attempt_step !terms (attempt_event r) r.(3) a in
      put_attempt a;
      compare_all attempt_names ("attempt, " ^ events.(r.(4))) r;
      note_attempt a;
      settle r (Attempt a)
  | kind ->
      let before = lease_before r in
      let l =
        match kind with
        | 3 -> lease_step !terms !rules (lease_event r) r.(3) before
        | 4 -> void r.(3) before
        | _ -> disown before
      in
      if kind = 3 then begin
        place := 0;
        put_lease l r.(3);
        compare_all lease_names ("lease, " ^ events.(r.(4))) r;
        note_lease before l
      end;
      settle r (Lease l)

let () =
  let expected = int_of_string Sys.argv.(1) in
  set_binary_mode_in stdin true;
  let size = fields * 8 in
  let buffer = Bytes.create size in
  for i = 0 to Array.length last - 1 do last.(i) <- Array.make fields 0 done;
  (try
     while true do
       really_input stdin buffer 0 size;
       let r = last.(!lines mod Array.length last) in
       for j = 0 to fields - 1 do r.(j) <- Int64.to_int (Bytes.get_int64_ne buffer (j * 8)) done;
       judge r;
       incr lines
     done
   with End_of_file -> ());
  if !lines < expected then (Printf.eprintf "only %d records of %d\n" !lines expected; exit 1);
  let all = List.sort compare (Hashtbl.fold (fun what n l -> (what, !n) :: l) seen []) in
  Printf.printf "%d events agree: %s\n" !lines
    (String.concat "; " (List.map (fun (what, n) -> Printf.sprintf "%d %s" n what) all));
  if List.length all < 18 then (prerr_endline "a case never occurred"; exit 1)
