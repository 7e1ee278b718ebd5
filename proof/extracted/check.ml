(* SPDX-License-Identifier: BSD-2-Clause

   Gives the steps of runs in classic mode to the checker of ClassicTraces.v (traces.ml, proof/README.md). *)
open Proved
open Traces

(* What the lines of one run say. A line is a fact, or says something about the world from the beginning on. *)
type run = {
  drifts : (int, int * int) Hashtbl.t;
  lists : (int, int list) Hashtbl.t;
  clients : (int, segment list) Hashtbl.t; (* the latest segment first *)
  servers : (int, segment list) Hashtbl.t;
  made : (int, int * int list) Hashtbl.t; (* by attempt: by whom, for what *)
  requests : (int, request) Hashtbl.t; (* by message *)
  granted : (int, int) Hashtbl.t; (* where, by message *)
  on_server : (int * int, int) Hashtbl.t; (* by server and resource: whose key is there *)
  ghost_ends : (int * int, int) Hashtbl.t; (* by server and resource *)
  first : (int, int * int) Hashtbl.t; (* by attempt: when it began, and its TTL *)
  left : (int, unit) Hashtbl.t; (* attempts that have released *)
  told : (int, unit) Hashtbl.t; (* attempts that were told that they hold *)
  broken : (int, unit) Hashtbl.t; (* attempts whose lock an operator has broken *)
  mutable ghosts : int; (* so many attempts stand for readers *)
  mutable slots : int; (* 0: the locks have none *)
  mutable facts : (string * seen) list; (* the latest first *)
  mutable slowest : int;
  mutable fastest : int;
}

let new_run () =
  { drifts = Hashtbl.create 8; lists = Hashtbl.create 8; clients = Hashtbl.create 8;
    servers = Hashtbl.create 16; made = Hashtbl.create 64; requests = Hashtbl.create 256; granted = Hashtbl.create 256;
    on_server = Hashtbl.create 16; ghost_ends = Hashtbl.create 16; first = Hashtbl.create 64; left = Hashtbl.create 16;
    told = Hashtbl.create 16; broken = Hashtbl.create 4; ghosts = 0; slots = 0; facts = []; slowest = 1_000_000; fastest = 1_000_000 }

let add_segment clocks whose from shown rate =
  let older = Option.value (Hashtbl.find_opt clocks whose) ~default:[] in
  Hashtbl.replace clocks whose ({ from; shown; rate } :: older)

let add_fact run line at fact = run.facts <- (line, { at_ = at; fact_of = fact }) :: run.facts

let sent run line at message request fact =
  Hashtbl.replace run.requests message request;
  add_fact run line at fact

let keys_on run m = Hashtbl.fold (fun (m', _) c all -> if m' = m then c :: all else all) run.on_server []

let delete_of c = { what = Delete; by_ = c; began = 0; ttl = 0 }

(* A server that is asked for a slot deletes the others that this token has. No client believes that it holds them. *)
let leave_others run line at m c =
  List.iter
    (fun c' ->
      if c' <> c && c' / run.slots = c / run.slots && not (Hashtbl.mem run.told c') then begin
        add_fact run line at (Released c');
        add_fact run line at (Served (m, m, delete_of c', false))
      end)
    (keys_on run m)

(* For a slot a server may be asked again, since most servers gave this one. Then it counts as asked at the beginning, and if
   the server has given the slot already, it says so again. *)
let set_of run c at ttl =
  let began =
    match Hashtbl.find_opt run.first c with
    | Some (first, ttl') when run.slots > 0 && ttl' = ttl && not (Hashtbl.mem run.told c) -> first
    | Some _ -> at
    | None -> Hashtbl.replace run.first c (at, ttl); at
  in
  { what = Set_; by_ = c; began; ttl }

let is_ghost c = c > marker

let now_on run m at = whole_ms (clock_at (Hashtbl.find run.servers m) at)

(* The key that readers share goes, or comes, with this end. *)
let ghost_goes run line at m x =
  match Hashtbl.find_opt run.on_server (m, x) with
  | Some c when is_ghost c ->
      add_fact run line at (Released c);
      add_fact run line at (Served (m, m, delete_of c, false));
      Hashtbl.remove run.on_server (m, x)
  | _ -> ()

let ghost_comes run line at m x ends =
  ghost_goes run line at m x;
  (* A writer that became a reader: its own request turned the key. *)
  (match Hashtbl.find_opt run.on_server (m, x) with
  | Some c when c > 0 -> add_fact run line at (Served (m, m, delete_of c, false))
  | _ -> ());
  let nodes = Hashtbl.find run.lists 0 in
  run.ghosts <- run.ghosts + 1;
  let c = marker + run.ghosts and ttl = ends - now_on run m at in
  Hashtbl.replace run.made c (0, [ x ]);
  add_fact run line at (Sent_set (0, c, List.hd nodes, [ x ], ttl));
  add_fact run line at (Served (m, m, { what = Set_; by_ = c; began = at; ttl }, true));
  Hashtbl.replace run.on_server (m, x) c;
  Hashtbl.replace run.ghost_ends (m, x) ends

(* Of an attempt that an operator has broken, what its client is told is not judged, and the operator sends its deletes too. *)
let is_of_broken run kind words =
  match (kind, words) with
  | ("W" | "P" | "L" | "R" | "Q"), _ :: c :: _ -> Hashtbl.mem run.broken (number c)
  | _ -> false

let take run line =
  match String.split_on_char ' ' line with
  | kind :: words when is_of_broken run kind words -> ()
  | kind :: words -> (
      match (kind, List.map number words) with
      | "D", [ k; ppm; fixed; _ ] -> Hashtbl.replace run.drifts k (ppm, fixed)
      | "T", [ slots ] -> run.slots <- slots
      | "N", k :: nodes -> Hashtbl.replace run.lists k nodes
      | "C", [ k; from; shown; rate ] ->
          run.slowest <- min run.slowest rate;
          add_segment run.clients k from shown rate
      | "K", [ m; from; shown; rate ] ->
          run.fastest <- max run.fastest rate;
          add_segment run.servers m from shown rate
      | "S", at :: k :: c :: n :: message :: ttl :: wanted ->
          if not (Hashtbl.mem run.made c) then Hashtbl.replace run.made c (k, wanted);
          sent run line at message (set_of run c at ttl) (Sent_set (k, c, n, wanted, ttl))
      | "E", [ at; k; c; n; message; ttl ] ->
          sent run line at message { what = Extend; by_ = c; began = at; ttl } (Sent_extend (k, c, n, ttl))
      | "X", [ at; k; c; n; message ] ->
          (* An attempt that ended before it sent a SET deletes what it has nowhere: that is no attempt in the proof. Should
             a server delete something for it, the key's next line is refused. *)
          let is_operators = Hashtbl.mem run.broken c && fst (Hashtbl.find run.made c) <> k in
          if Hashtbl.mem run.made c && not is_operators then sent run line at message (delete_of c) (Sent_delete (k, c, n))
          else Hashtbl.replace run.requests message (delete_of c)
      | "U", [ at; c ] ->
          if Hashtbl.mem run.made c then begin
            Hashtbl.replace run.broken c ();
            Hashtbl.remove run.told c;
            add_fact run line at (Released c);
            add_fact run line at (Broken c)
          end
      | "V", [ at; m; message; granted ] ->
          let request =
            match Hashtbl.find_opt run.requests message with
            | Some request -> request
            | None -> raise (Unreadable ("nobody sent what is served: " ^ line))
          in
          (* In the proof a release is no vote. *)
          let granted = granted = 1 && request.what <> Delete in
          let for_slot = run.slots > 0 && request.what = Set_ in
          let is_there = for_slot && List.mem request.by_ (keys_on run m) in
          if for_slot then leave_others run line at m request.by_;
          if Hashtbl.mem run.made request.by_ && (granted && not is_there || not for_slot) then
            add_fact run line at (Served (m, m, request, granted));
          let is_first = Option.map fst (Hashtbl.find_opt run.first request.by_) = Some request.began in
          if granted && (is_first || not is_there) then Hashtbl.replace run.granted message m
      | "A", [ at; message ] -> (
          match (Hashtbl.find_opt run.granted message, Hashtbl.find_opt run.requests message) with
          | Some n, Some request -> add_fact run line at (Got (n, request))
          | _ -> ())
      | "Q", [ at; c; rest_ms; held; _ ] -> add_fact run line at (Says (c, rest_ms, held = 1))
      | "Y", [ at; m; x; token; ends ] when token = marker ->
          let is_there = match Hashtbl.find_opt run.on_server (m, x) with Some c -> is_ghost c | None -> false in
          if not (is_there && Hashtbl.find_opt run.ghost_ends (m, x) = Some ends) then ghost_comes run line at m x ends
      | "Y", [ at; m; x; token; ends ] ->
          ghost_goes run line at m x;
          (* A writer that became a reader deletes its key as a reader does. *)
          (match Hashtbl.find_opt run.on_server (m, x) with
          | Some c when token = 0 && Hashtbl.mem run.left c -> add_fact run line at (Served (m, m, delete_of c, false))
          | _ -> ());
          Hashtbl.replace run.on_server (m, x) token;
          add_fact run line at (Key_is (m, x, if token = 0 then None else Some { owner = token; ends }))
      | "Z", [ at; m; x ] ->
          Hashtbl.remove run.on_server (m, x);
          add_fact run line at (Key_ended (m, x))
      | "W", [ at; c; until ] ->
          Hashtbl.replace run.told c ();
          add_fact run line at (Won (c, until))
      | "P", [ at; c; until ] -> add_fact run line at (Prolonged (c, until))
      | "L", [ at; c ] ->
          Hashtbl.remove run.told c;
          add_fact run line at (Lost c)
      | "R", [ at; c ] ->
          Hashtbl.replace run.left c ();
          Hashtbl.remove run.told c;
          add_fact run line at (Released c)
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

(* A client decides first and then writes to its connections, one after the other: what it deletes in an instant comes after
   what it sets in it. *)
let earlier (_, a) (_, b) =
  let last fact = match fact.fact_of with Sent_delete _ -> 1 | _ -> 0 in
  compare (a.at_, last a) (b.at_, last b)

let judge texts =
  let run = new_run () in
  List.iter (take run) texts;
  let world = world_of run in
  if not (is_sound world) then Left (List.hd texts, "outside the proof's assumptions")
  else
    let facts = List.stable_sort earlier (List.rev run.facts) in
    match check world first_table (List.map snd facts) with
    | Some _ -> Accepted 0
    | None -> Refused (first_refused world facts)

(* From where on a server's clock steps forward, nothing is judged. *)
let steps_forward () =
  let clocks = Hashtbl.create 16 in
  function
  | [ "K"; node; from; shown; rate ] ->
      let g = { from = number from; shown = number shown; rate = number rate } in
      let older = Option.value (Hashtbl.find_opt clocks node) ~default:[] in
      Hashtbl.replace clocks node (g :: older);
      older <> [] && g.shown > clock_at older g.from
  | _ -> false

let () = main ~is_outside:steps_forward judge
