(* SPDX-License-Identifier: BSD-2-Clause

   Reads the steps of simulated runs (sim/world/steps.h) and gives them to the checker of ClassicTraces.v (proof/README.md).
   usage: redlock-sim --seeds N --steps | check [--first] [ACCEPTED]
   --first ends at the first run that is not accepted.
   Exit 0: each run that the proof is about is accepted, and there are at least so many of them; 1: one is not. *)
open Proved

exception Unreadable of string

(* What the lines of one run say. A line is a fact, or says something about the world from the beginning on. *)
type run = {
  mutable seed : int;
  mutable outside : string option;
  drifts : (int, int * int) Hashtbl.t;
  lists : (int, int list) Hashtbl.t;
  clients : (int, segment list) Hashtbl.t; (* the latest segment first *)
  servers : (int, segment list) Hashtbl.t;
  made : (int, int * int list) Hashtbl.t; (* by attempt: by whom, for what *)
  requests : (int, request) Hashtbl.t; (* by message *)
  mutable facts : (string * seen) list; (* the latest first *)
  mutable slowest : int;
  mutable fastest : int;
}

let new_run seed =
  { seed; outside = None; drifts = Hashtbl.create 8; lists = Hashtbl.create 8; clients = Hashtbl.create 8;
    servers = Hashtbl.create 16; made = Hashtbl.create 64; requests = Hashtbl.create 256; facts = [];
    slowest = 1_000_000; fastest = 1_000_000 }

let limit = 1 lsl 61

let number word =
  match int_of_string_opt word with
  | Some n when n >= 0 && n < limit -> n
  | _ -> raise (Unreadable ("not a number that fits: " ^ word))

let add_segment clocks whose from shown rate =
  let older = Option.value (Hashtbl.find_opt clocks whose) ~default:[] in
  Hashtbl.replace clocks whose ({ from; shown; rate } :: older)

let add_fact run line at fact = run.facts <- (line, { at_ = at; fact_of = fact }) :: run.facts

let sent run line at message request fact =
  Hashtbl.replace run.requests message request;
  add_fact run line at fact

let take run line =
  match String.split_on_char ' ' line with
  | "O" :: _ :: reason -> if run.outside = None then run.outside <- Some (String.concat " " reason)
  | kind :: words -> (
      match (kind, List.map number words) with
      | "D", [ k; ppm; fixed ] -> Hashtbl.replace run.drifts k (ppm, fixed)
      | "N", k :: nodes -> Hashtbl.replace run.lists k nodes
      | "C", [ k; from; shown; rate ] ->
          run.slowest <- min run.slowest rate;
          add_segment run.clients k from shown rate
      | "K", [ m; from; shown; rate ] ->
          run.fastest <- max run.fastest rate;
          add_segment run.servers m from shown rate
      | "S", at :: k :: c :: n :: message :: ttl :: wanted ->
          if not (Hashtbl.mem run.made c) then Hashtbl.replace run.made c (k, wanted);
          sent run line at message { what = Set_; by_ = c; began = at; ttl } (Sent_set (k, c, n, wanted, ttl))
      | "E", [ at; k; c; n; message; ttl ] ->
          sent run line at message { what = Extend; by_ = c; began = at; ttl } (Sent_extend (k, c, n, ttl))
      | "X", [ at; k; c; n; message ] ->
          let request = { what = Delete; by_ = c; began = 0; ttl = 0 } in
          (* An attempt that ended before it sent a SET deletes what it has nowhere: that is no attempt in the proof. Should
             a server delete something for it, the key's next line is refused. *)
          if Hashtbl.mem run.made c then sent run line at message request (Sent_delete (k, c, n))
          else Hashtbl.replace run.requests message request
      | "V", [ at; m; message; granted ] ->
          let request =
            match Hashtbl.find_opt run.requests message with
            | Some request -> request
            | None -> raise (Unreadable ("nobody sent what is served: " ^ line))
          in
          (* In the proof a release is no vote. *)
          let granted = granted = 1 && request.what <> Delete in
          if Hashtbl.mem run.made request.by_ then add_fact run line at (Served (m, m, request, granted))
      | "Y", [ at; m; x; token; ends ] ->
          add_fact run line at (Key_is (m, x, if token = 0 then None else Some { owner = token; ends }))
      | "Z", [ at; m; x ] -> add_fact run line at (Key_ended (m, x))
      | "W", [ at; c; until ] -> add_fact run line at (Won (c, until))
      | "P", [ at; c; until ] -> add_fact run line at (Prolonged (c, until))
      | "L", [ at; c ] -> add_fact run line at (Lost c)
      | "R", [ at; c ] -> add_fact run line at (Released c)
      | _ -> raise (Unreadable line))
  | [] -> raise (Unreadable line)

let all table = List.init (Hashtbl.length table) (fun i -> Hashtbl.find table i)

let world_of run =
  let drifts = List.sort_uniq compare (all run.drifts) in
  let ppm, fixed = match drifts with [ one ] -> one | _ -> raise (Unreadable "clients with different drift") in
  let made = Hashtbl.fold (fun c what made -> (c, what) :: made) run.made [] in
  { nodes_of = all run.lists; client_clocks = all run.clients; server_clocks = all run.servers;
    resources = 1 + List.fold_left (fun most (_, (_, wanted)) -> List.fold_left max most wanted) 0 made;
    attempts = List.sort (fun (a, _) (b, _) -> compare b a) made; slow_ppm = 1_000_000 - run.slowest;
    fast_ppm = run.fastest - 1_000_000; ppm; fixed }

(* The fact at which the checker stops. *)
let first_refused world facts =
  let rec go table = function
    | [] -> "nothing"
    | (line, fact) :: rest -> ( match check_one world table fact with Some table -> go table rest | None -> line)
  in
  go first_table facts

let accepted = ref 0 and outside = ref 0 and unsound = ref 0 and refused = ref 0 and facts_count = ref 0
let first = ref false
let reasons : (string, int) Hashtbl.t = Hashtbl.create 8

(* A client decides first and then writes to its connections, one after the other: what it deletes in an instant comes after
   what it sets in it. *)
let earlier (_, a) (_, b) =
  let last fact = match fact.fact_of with Sent_delete _ -> 1 | _ -> 0 in
  compare (a.at_, last a) (b.at_, last b)

let judge run =
  match run.outside with
  | Some reason ->
      incr outside;
      Hashtbl.replace reasons reason (1 + Option.value (Hashtbl.find_opt reasons reason) ~default:0)
  | None ->
      let world = world_of run in
      if not (is_sound world) then incr unsound
      else begin
        let facts = List.stable_sort earlier (List.rev run.facts) in
        match check world first_table (List.map snd facts) with
        | Some _ ->
            incr accepted;
            facts_count := !facts_count + List.length facts
        | None ->
            incr refused;
            Printf.printf "seed %d is no run of the proved system: %s\n%!" run.seed (first_refused world facts);
            if !first then exit 1
      end

let () =
  Gc.set { (Gc.get ()) with Gc.minor_heap_size = 1 lsl 20; space_overhead = 400 };
  let least = ref 1 in
  Array.iteri (fun i word -> if word = "--first" then first := true else if i > 0 then least := int_of_string word) Sys.argv;
  let run = ref None in
  (try
     while true do
       let line = input_line stdin in
       match !run with
       | None when String.length line > 5 && String.sub line 0 5 = "seed " ->
           run := Some (new_run (number (String.sub line 5 (String.length line - 5))))
       | None -> raise (Unreadable line)
       | Some r when line = "." ->
           judge r;
           run := None
       | Some r -> take r line
     done
   with
  | End_of_file -> if !run <> None then (prerr_endline "check: the last run has no end"; exit 2)
  | Unreadable line -> (prerr_endline ("check: cannot read: " ^ line); exit 2));
  Printf.printf "%d runs accepted (%d facts), %d refused, %d outside the proof's assumptions, %d of what it leaves out" !accepted
    !facts_count !refused !unsound !outside;
  Hashtbl.iter (fun reason n -> Printf.printf "; %s: %d" reason n) reasons;
  print_newline ();
  if !refused > 0 || !accepted < !least then exit 1
