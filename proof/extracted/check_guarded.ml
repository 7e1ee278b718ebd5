(* SPDX-License-Identifier: BSD-2-Clause

   Gives the steps of runs in guarded mode to the checker of GuardedTraces.v (traces.ml, proof/README.md).

   The first pass makes facts of the lines, and looks for what they do not say: which votes were counted, when a
   registration was complete, which reads were installed. The second pass gives the facts to the checker, from nothing: a
   fault of the first one cannot make it accept anything. *)
open Proved
open Traces

exception Refused_here

(* ---- lines ---------------------------------------------------------------------------------------------------- *)

type line = {
  at : int;
  kind : string;
  words : string list; (* after kind and time *)
  text : string;
}

(* A client decides first and then writes to its connections, one after the other: what it deletes in an instant comes after
   what it sets in it. *)
let earlier a b =
  let last l = match (l.kind, l.words) with "M", _ :: "X" :: _ -> 1 | _ -> 0 in
  compare (a.at, last a) (b.at, last b)

(* The lines in order, but those of the block of a new body stay behind its beginning. *)
let lines_of texts =
  let at = ref 0 in
  let line text =
    match String.split_on_char ' ' text with
    | kind :: words when List.mem kind timeless -> { at = !at; kind; words; text }
    | kind :: time :: words ->
        at := number time;
        { at = !at; kind; words; text }
    | _ -> raise (Unreadable text)
  in
  Array.of_list (List.stable_sort earlier (List.rev (List.rev_map line texts)))

let numbers line = List.map number line.words

(* ---- bodies, before the first pass ------------------------------------------------------------------------------ *)

(* A record that is written as recovering makes another body of the server too: in the proof no body goes back. So does a
   request that extends a key on a server that is not intact: in the proof only intact bodies extend, and a new body may have
   any keys. So a body of the trace is one or more bodies of the proof, and `later` says at which lines these begin. *)
type bodies = {
  mutable count : int;
  nodes_of : (int, int) Hashtbl.t; (* by body of the proof *)
  clocks : (int, segment list) Hashtbl.t;
  claims_of : (int, int * int) Hashtbl.t; (* the incarnation with which it became intact *)
  first_of : (int, int) Hashtbl.t; (* by body of the trace: its first one of the proof *)
  later : (int, int) Hashtbl.t; (* by line *)
  incarnations : (int, (int * int) list) Hashtbl.t; (* by member *)
}

let rec triples = function
  | m :: number :: run_id :: rest -> (m, (number, run_id)) :: triples rest
  | [] -> []
  | _ -> raise (Unreadable "a record")

(* The clock of a body from which a key is gone before its end: it shows the end for one nanosecond. *)
let jumps at clock =
  let usual = { from = at + 1; shown = clock_at clock (at + 1); rate = (List.hd clock).rate } in
  usual :: { from = at; shown = limit - 1; rate = 1_000_000 } :: clock

(* With `keys_go`, a server that has evicted a key is the body that it was, and its clock jumped. *)
let scan keys_go nodes lines =
  let all =
    { count = 0; nodes_of = Hashtbl.create 32; clocks = Hashtbl.create 32; claims_of = Hashtbl.create 32;
      first_of = Hashtbl.create 32; later = Hashtbl.create 32; incarnations = Hashtbl.create 8 }
  in
  let present = Hashtbl.create 32 (* by body of the trace *) and on_node = Array.make nodes 0 in
  let fresh node former =
    let b = all.count in
    all.count <- b + 1;
    Hashtbl.replace all.nodes_of b node;
    Hashtbl.replace all.clocks b (Option.value (Option.bind former (Hashtbl.find_opt all.clocks)) ~default:[]);
    b
  in
  for node = 0 to nodes - 1 do
    let b = fresh node None in
    Hashtbl.replace present b b;
    Hashtbl.replace all.first_of b b;
    on_node.(node) <- b
  done;
  let was_intact = Hashtbl.create 32 and unnoticed = Hashtbl.create 4 and extensions = Hashtbl.create 256 in
  let again i body b =
    let next = fresh (Hashtbl.find all.nodes_of b) (Some b) in
    Hashtbl.replace present body next;
    Hashtbl.replace all.later i next;
    next
  in
  Array.iteri
    (fun i line ->
      (match (line.kind, line.words) with
      | "M", message :: "E" :: _ -> Hashtbl.replace extensions message ()
      | "V", [ body; message; _; "g" ] when Hashtbl.mem extensions message ->
          let b = Hashtbl.find present (number body) in
          if not (Hashtbl.mem was_intact b) then ignore (again i (number body) b)
      | _ -> ());
      match (line.kind, numbers { line with words = (if List.mem line.kind [ "K"; "B"; "I" ] then line.words else []) }) with
      | "K", [ node; from; shown; rate ] ->
          let b = Hashtbl.find present on_node.(node) in
          Hashtbl.replace all.clocks b ({ from; shown; rate } :: Hashtbl.find all.clocks b)
      | "B", [ body; node; _; evicted ] when keys_go && evicted > 0 ->
          let b = Hashtbl.find present on_node.(node) in
          Hashtbl.replace all.clocks b (jumps line.at (Hashtbl.find all.clocks b));
          Hashtbl.replace unnoticed b ();
          Hashtbl.replace present body b;
          Hashtbl.replace all.first_of body b;
          on_node.(node) <- body
      | "B", [ body; node; _; _ ] ->
          let b = fresh node (Some (Hashtbl.find present on_node.(node))) in
          Hashtbl.replace present body b;
          Hashtbl.replace all.first_of body b;
          on_node.(node) <- body
      | "I", body :: intact :: writer :: record ->
          let b = Hashtbl.find present body and known = triples record in
          let is_another = intact = 0 && Hashtbl.mem was_intact b && (writer > 0 || not (Hashtbl.mem unnoticed b)) in
          let b = if is_another then again i body b else b in
          List.iter
            (fun (m, incarnation) ->
              let others = Option.value (Hashtbl.find_opt all.incarnations m) ~default:[] in
              Hashtbl.replace all.incarnations m (List.sort_uniq compare (incarnation :: others)))
            known;
          if intact = 1 && not (Hashtbl.mem was_intact b) then begin
            Hashtbl.replace was_intact b ();
            match List.assoc_opt (Hashtbl.find all.nodes_of b) known with
            | Some incarnation -> Hashtbl.replace all.claims_of b incarnation
            | None -> ()
          end
      | _ -> ())
    lines;
  all

(* Ranks are counted from 0, the incarnation of the beginning. *)
let rank_in bodies m incarnation =
  let rec go i = function
    | [] -> raise (Unreadable "an incarnation that no record has")
    | x :: rest -> if x = incarnation then i else go (i + 1) rest
  in
  go 0 (Option.value (Hashtbl.find_opt bodies.incarnations m) ~default:[])

(* A body that never becomes intact has a rank of its own. *)
let rank_of_body bodies nodes b =
  if b < nodes then 0
  else
    match Hashtbl.find_opt bodies.claims_of b with
    | Some incarnation -> rank_in bodies (Hashtbl.find bodies.nodes_of b) incarnation
    | None -> 1_000_000 + b

(* ---- the world --------------------------------------------------------------------------------------------------- *)

let table_list count find = List.init count find
let group_clocks lines kind =
  let clocks = Hashtbl.create 8 in
  Array.iter
    (fun line ->
      if line.kind = kind then
        match numbers line with
        | [ k; from; shown; rate ] ->
            Hashtbl.replace clocks k ({ from; shown; rate } :: Option.value (Hashtbl.find_opt clocks k) ~default:[])
        | _ -> raise (Unreadable line.text))
    lines;
  table_list (Hashtbl.length clocks) (Hashtbl.find clocks)

let ghost_of lines =
  1 + Array.fold_left (fun most l -> match (l.kind, l.words) with "M", [ _; "A"; _; c; _; _; _ ] -> max most (number c) | _ -> most) 0 lines

(* All but the moments. *)
let world_of lines bodies nodes longest_ttl =
  let drifts = ref [] and confirms = ref [] and made = Hashtbl.create 64 in
  Array.iter
    (fun line ->
      match (line.kind, line.words) with
      | "D", [ _; ppm; fixed; confirm ] ->
          drifts := (number ppm, number fixed) :: !drifts;
          confirms := (confirm = "1") :: !confirms
      | "M", [ _; "A"; k; c; _; x; _ ] ->
          if not (Hashtbl.mem made (number c)) then Hashtbl.replace made (number c) (number k, number x)
      | _ -> ())
    lines;
  for x = 0 to many_resources - 1 do Hashtbl.replace made (ghost_of lines + x) (0, x) done;
  let ppm, fixed =
    match List.sort_uniq compare !drifts with [ one ] -> one | _ -> raise (Unreadable "clients with different drift")
  in
  let client_clocks = group_clocks lines "C" in
  let body_clocks = table_list bodies.count (Hashtbl.find bodies.clocks) in
  let rates clocks = 1_000_000 :: List.concat_map (List.map (fun g -> g.rate)) clocks in
  let least = List.fold_left min max_int and most = List.fold_left max 0 in
  { nodes; client_clocks; confirms = List.rev !confirms; body_clocks; longest_ttl; ppm; fixed;
    bodies = List.init (bodies.count - nodes) (fun i ->
        (nodes + i, (Hashtbl.find bodies.nodes_of (nodes + i), rank_of_body bodies nodes (nodes + i))));
    attempts = List.sort compare (Hashtbl.fold (fun c what all -> (c, what) :: all) made []);
    times = []; ends_at = 0; slow_ppm = 1_000_000 - least (rates client_clocks);
    quick_ppm = most (rates client_clocks) - 1_000_000; fast_ppm = most (rates body_clocks) - 1_000_000 }

(* ---- the first pass ---------------------------------------------------------------------------------------------- *)

type request = { op : string; c : int; began : int; ttl : int; x : int; t : int; to_win : bool }

type pass = {
  world : world;
  y : system;
  sizes : sizes;
  moments : (int, int) Hashtbl.t; (* their times *)
  mutable last : int;
  mutable s : state;
  mutable facts : told list; (* the latest first *)
  requests : (int, request) Hashtbl.t; (* by message *)
  seen_by : (int, int list) Hashtbl.t; (* by message: the moments at which servers were seen when they granted it *)
  got : (int, unit) Hashtbl.t; (* those of them of which the client has received the answer *)
  asked : (int, int * int) Hashtbl.t; (* by attempt: when it was last confirmed, as moment and time *)
  readers : (int, int) Hashtbl.t; (* by moment: the client that read fences then *)
  clients : (int, int) Hashtbl.t; (* by message *)
  mutable evicted : int; (* until then a round may begin that counts a server that has evicted a key *)
  rounds : (int, (int * int) list) Hashtbl.t; (* of extensions since the last that counted: began, ttl; the latest first *)
  mutable known : (int * int) list; (* attempts that were told that they hold a lock *)
  body_of : (int, int) Hashtbl.t; (* by body of the trace *)
  mutable broken : int list; (* attempts whose locks an operator has broken *)
  slots : int; (* 0: the locks have none *)
  ghost : int; (* ghost + x stands for the readers of resource x *)
}

let try_fact p at fact =
  let m = p.s.moment_now in
  let here = Hashtbl.find_opt p.moments m in
  if here = None then Hashtbl.replace p.moments m at;
  let after = match fact with Won _ | Prolonged _ -> true | _ -> false in
  if after then Hashtbl.replace p.moments (m + 1) at;
  match check_one p.sizes p.y p.s { at_ = at; fact_of = fact } with
  | Some s ->
      p.s <- s;
      p.facts <- { at_ = at; fact_of = fact } :: p.facts;
      if after && s.moment_now = m then Hashtbl.remove p.moments (m + 1);
      true
  | None ->
      if after then Hashtbl.remove p.moments (m + 1);
      false

(* Time goes on: the present moment may have an earlier time already. *)
let touch p at =
  (match Hashtbl.find_opt p.moments p.s.moment_now with
  | Some t when t < at -> if not (try_fact p t (Happens Passes)) then raise Refused_here
  | _ -> ());
  Hashtbl.replace p.moments p.s.moment_now at;
  p.last <- at

let fact p at fact =
  touch p at;
  if not (try_fact p at fact) then raise Refused_here

let happens p at event = fact p at (Happens event)
let member_in p o = p.y.member_of o.of_body

(* Observations with their places in the log that satisfy `good` and that the client has received, the latest of each body. *)
let candidates p good =
  let good o = Hashtbl.mem p.got o.moment && good o in
  let rec go i seen_bodies = function
    | [] -> []
    | o :: rest ->
        if (not (List.mem o.of_body seen_bodies)) && good o then (i, o) :: go (i + 1) (o.of_body :: seen_bodies) rest
        else go (i + 1) seen_bodies rest
  in
  go 0 [] p.s.log

let rec subsets = function
  | [] -> [ [] ]
  | x :: rest -> let without = subsets rest in List.map (fun s -> x :: s) without @ without

(* A view among them, as large as possible. *)
let view_among p found =
  let superseded (_, o) = List.exists (fun (_, o') -> o'.knew (member_in p o) > p.y.rank_of o.of_body) found in
  let is l = is_view p.y (List.map snd l) in
  let plain = List.filter (fun f -> not (superseded f)) found in
  if is plain then Some plain
  else if List.length found > 10 then None
  else
    List.find_opt is
      (List.stable_sort (fun a b -> compare (List.length b) (List.length a)) (subsets found))

let places l = List.map fst l

(* Registrations that are complete now. *)
let register p at =
  List.iter
    (fun b ->
      if p.s.life_of b = Recovering && p.s.registered b = None then begin
        let m = p.y.member_of b and r = p.y.rank_of b in
        let knowing = List.filter (fun o -> intact p.s o && p.s.knows o m >= r) p.s.claims in
        let seen = List.map (fun o -> (o, observe p.s o (p.s.fence o) Is_read)) knowing in
        match view_among p seen with
        | Some view ->
            touch p at;
            ignore (try_fact p at (Happens (Is_registered (b, places view))))
        | None -> ()
      end)
    p.s.claims

(* What was read: fences and incarnations not above what the body has now, after the wait of the quickest agent. *)
let install p at b writer fences known =
  match p.s.registered b with
  | None -> raise Refused_here
  | Some r ->
      let start = p.y.time_at r.complete_at in
      let agents = List.mapi (fun a _ -> a) p.world.client_clocks in
      let waits_to m =
        List.find_map
          (fun a ->
            let w = [ { waiter = a; wait_from = r.complete_at; wait_to = m } ] in
            match waited p.y r.complete_at w with
            | Some (_, time) when quarantine p.y <= time && start <= p.y.time_at m -> Some w
            | _ -> None)
          agents
      in
      let good o =
        o.why = Is_read && Hashtbl.find_opt p.readers o.moment = Some writer && o.moment > r.complete_at && waits_to o.moment <> None
        && List.for_all (fun (x, t) -> o.after x <= t) fences
        && List.for_all (fun (m, k) -> o.knew m <= k) known
      in
      (match view_among p (candidates p good) with
      | None -> raise Refused_here
      | Some view ->
          let first = List.fold_left (fun m (_, o) -> min m o.moment) max_int view in
          happens p at (Installs (b, places view, Option.get (waits_to first))))

let open_rounds p c = Option.value (Hashtbl.find_opt p.rounds c) ~default:[]

(* Of a server that lives on next to the one that has its place, the trace shows no keys. *)
let shows_keys lines i =
  let rec go j = j < Array.length lines && (match lines.(j).kind with "F" -> go (j + 1) | kind -> kind = "Y") in
  go (i + 1)

let served p at b shows_keys message request part verdict =
  let seen event =
    let others = Option.value (Hashtbl.find_opt p.seen_by message) ~default:[] in
    touch p at;
    Hashtbl.replace p.seen_by message (p.s.moment_now :: others);
    happens p at event
  in
  let again moment = Hashtbl.replace p.seen_by message [ moment ] in
  let { op; c; began; ttl; x; t; to_win } = request in
  let granted = verdict = "g" in
  let is_ours = is_owned c (p.s.keys b x) in
  (* A server that is asked for a slot deletes the others that this token has. No client believes that it holds them. *)
  let leave_others () =
    for x' = 0 to many_resources - 1 do
      match p.s.keys b x' with
      | Some { owner } when owner <> c && owner / p.slots = c / p.slots && not (List.mem_assoc owner p.known) ->
          fact p at (Released owner);
          happens p at (Deletes (b, owner))
      | _ -> ()
    done
  in
  let raise_it () = if granted && intact p.s b then seen (Raises (b, c, began, ttl, t)) in
  match op with
  | "A" ->
      if p.slots > 0 then leave_others ();
      let given = List.find_opt (fun o -> o.of_body = b && is_vote c began ttl t o) p.s.log in
      if p.slots > 0 && is_ours && granted && given <> None then again (Option.get given).moment
      else begin
      if part <> 2 && (granted || verdict = "s" || verdict = "r") && not (p.slots > 0 && is_ours) then begin
        (match p.s.keys b x with
        | Some k when k.owner = p.ghost + x && not shows_keys -> happens p at (Deletes (b, k.owner))
        | Some _ -> happens p at (Proved.Ends (b, x))
        | None -> ());
        happens p at (Sets (b, c, began, ttl))
      end;
      (* A server that has the key from a repair gives it again: that is no vote for the round that asks. *)
      let was_set = List.mem (((b, c), began), ttl) p.s.sets in
      if part <> 1 && to_win && (was_set || not (p.slots > 0 && is_ours)) then raise_it ()
      end
  | "T" -> if to_win then raise_it ()
  | "E" ->
      (* A request that is sent again counts for the round of the first one. *)
      if granted && intact p.s b then
        List.iter
          (fun (began, ttl') -> if ttl' = ttl then seen (Extends_ (b, c, began, ttl, t)))
          (if List.mem (began, ttl) (open_rounds p c) then open_rounds p c else (began, ttl) :: open_rounds p c)
  | "X" -> (
      match p.s.keys b x with
      (* A release of several slots is denied if one of them is another's. *)
      | Some k when k.owner = c && (granted || p.slots > 0) -> happens p at (Deletes (b, c))
      | _ -> ())
  | "F" -> if granted && intact p.s b then seen (Reads b)
  (* A break, in one step: another nonce, the fence, strictly, and the key, if it is of this token. *)
  | "B" when granted || verdict = "d" || verdict = "a" ->
      if t <= p.s.fence b x || part <> 1 then raise Refused_here;
      happens p at (Renames b);
      happens p at (Bumps (b, x, t));
      if is_ours then happens p at (Deletes (b, c))
  | "C" ->
      if granted then begin
        if not (is_owned c (p.s.keys b x)) || p.s.fence b x < t then raise Refused_here;
        if intact p.s b then seen (Confirms_ (b, c))
      end
  | _ -> ()

let sent p at message op c ttl x t =
  touch p at;
  let request =
    match (op, p.s.phase_of c) with
    | "A", Idle ->
        let began = p.s.moment_now in
        happens p at (Begins (c, ttl));
        { op; c; began; ttl; x; t; to_win = true }
    | "T", Trying (began, ttl) -> { op; c; began; ttl; x; t; to_win = true }
    | "A", Trying (began, ttl') when ttl = ttl' && t > 0 -> { op; c; began; ttl; x; t; to_win = true }
    (* It has the lock, though maybe it was not told yet: a late node gets the key, with no fence, or with what is left of the TTL. *)
    | "A", _ -> { op; c; began = p.s.moment_now; ttl; x; t; to_win = false }
    | "E", _ ->
        let began =
          match open_rounds p c with
          | (began, ttl') :: _ when ttl' = ttl && p.y.time_at began = at -> began
          | rounds ->
              Hashtbl.replace p.rounds c ((p.s.moment_now, ttl) :: rounds);
              p.s.moment_now
        in
        { op; c; began; ttl; x; t; to_win = false }
    | "C", _ ->
        (match Hashtbl.find_opt p.asked c with
        | Some (_, time) when time = at -> ()
        | _ -> Hashtbl.replace p.asked c (p.s.moment_now, at));
        { op; c; began = 0; ttl; x; t; to_win = false }
    | "X", (Trying _ | Holding _) ->
        (* A client that was told that it holds the lock says that it releases it, before it does; so does an operator who
           breaks it. *)
        if List.mem_assoc c p.known then raise Refused_here;
        fact p at (Released c);
        { op; c; began = 0; ttl; x; t; to_win = false }
    | _ -> { op; c; began = 0; ttl; x; t; to_win = false }
  in
  Hashtbl.replace p.requests message request

let won p at c until t =
  match p.s.phase_of c with
  | Trying (began, ttl) -> (
      let asked = Hashtbl.find_opt p.asked c in
      (* The confirm round is about the votes that were there when it began. *)
      let counts o = is_vote c began ttl t o && match asked with Some (moment, _) -> o.moment < moment | None -> true in
      match view_among p (candidates p counts) with
      | None -> raise Refused_here
      | Some view ->
          let confirm =
            if asked = None then None
            else view_among p (candidates p (is_confirmation c (List.map snd view))) |> Option.map places
          in
          let won = { at_ = at; fact_of = Won (c, until, t, places view, confirm) } in
          if not (is_confirmed p.world won) then raise Refused_here;
          fact p at won.fact_of;
          p.known <- (c, until) :: p.known)
  | _ -> raise Refused_here

let prolonged p at c until =
  touch p at;
  match p.s.phase_of c with
  | Holding old when until <= old -> fact p at (Prolonged (c, until, 0, 0, []))
  | Holding _ ->
      let counts (began, ttl) =
        match view_among p (candidates p (is_extension c began ttl)) with
        | Some view -> try_fact p at (Prolonged (c, until, began, ttl, places view))
        | None -> false
      in
      let rec go = function
        | [] -> raise Refused_here
        | round :: older ->
            if counts round then Hashtbl.replace p.rounds c (List.filter (fun r -> fst r >= fst round) (open_rounds p c))
            else go older
      in
      go (open_rounds p c)
  | _ -> raise Refused_here

let key_of p x token ends =
  if token = 0 then None else Some { owner = (if token = marker then p.ghost + x else token); ends }

let is_over p c = match p.s.phase_of c with Over -> true | _ -> false

(* The key that readers share has come or gone, or another end. A writer that became a reader leaves its key too. *)
let ghost_moves p at b x key =
  let is_ghost c = c = p.ghost + x in
  let here = p.s.keys b x in
  if here <> key then begin
    (match (here, key) with
    | Some k, _ when is_ghost k.owner -> happens p at (Deletes (b, k.owner))
    | Some k, None when is_over p p.ghost && is_over p k.owner -> happens p at (Deletes (b, k.owner))
    | Some k, Some k' when is_ghost k'.owner && is_over p k.owner -> happens p at (Deletes (b, k.owner))
    | _ -> ());
    match key with
    | Some k when is_ghost k.owner -> happens p at (Sets (b, k.owner, 0, k.ends - p.y.server_clock b at))
    | _ -> ()
  end

(* A client asks a server what its vote rests on unless it did so within the last second, and then counts it. *)
let is_excused p at kind words =
  let began_by moment = p.y.time_at moment <= p.evicted in
  match (kind, words) with
  | "W", c :: _ -> ( match p.s.phase_of (number c) with Trying (began, _) -> began_by began | _ -> false)
  | "P", c :: _ -> List.exists (fun (began, _) -> began_by began) (open_rounds p (number c))
  | _ -> false

(* What is there at the beginning of a body, or when its record was written: the lines behind it. *)
let block p lines i =
  let keys = ref [] and fences = ref [] and stop = ref (i + 1) and more = ref true in
  while !more && !stop < Array.length lines do
    let line = lines.(!stop) in
    (match (line.kind, if line.kind = "Y" || line.kind = "F" then numbers line else []) with
    | "Y", [ _; x; token; ends ] -> keys := (x, key_of p x token ends) :: !keys
    | "F", [ _; x; t ] -> fences := (x, t) :: !fences
    | "I", _ when lines.(i).kind = "B" && !fences = [] -> ()
    | _ -> more := false);
    incr stop
  done;
  (!keys, !fences)

let find_in l none x = Option.value (List.assoc_opt x l) ~default:none

(* Of an attempt that an operator has broken, what its client is told is not judged. *)
let is_of_broken p kind words =
  match (kind, words) with ("W" | "P" | "L" | "R" | "Q"), c :: _ -> List.mem (number c) p.broken | _ -> false

let first_pass keys_go world slots bodies lines =
  let moments = Hashtbl.create 4096 and last = ref 0 in
  let y = { (system_of world) with time_at = (fun m -> match Hashtbl.find_opt moments m with Some t -> t | None -> !last) } in
  let p =
    { world; y; slots; ghost = ghost_of lines; sizes = sizes_of world; moments; last = 0; s = initial y; facts = []; requests = Hashtbl.create 1024; rounds = Hashtbl.create 64;
      seen_by = Hashtbl.create 1024; got = Hashtbl.create 1024; asked = Hashtbl.create 16; readers = Hashtbl.create 64;
      clients = Hashtbl.create 1024; evicted = 0; known = []; broken = []; body_of = Hashtbl.copy bodies.first_of }
  in
  let ranked = List.map (fun (m, incarnation) -> (m, rank_in bodies m incarnation)) in
  (* What the record of a body says of others counts only from when it is intact. *)
  let claim at b held fences =
    touch p at;
    happens p at (Claims (b, (fun _ -> 0), memo many_resources (find_in fences 0), memo many_resources (find_in held None)));
    register p at
  in
  let later_body at i body held fences =
    let b = Hashtbl.find p.body_of body in
    match Hashtbl.find_opt bodies.later i with
    | Some again ->
        let held = List.init many_resources (fun x -> (x, held b x)) in
        let fences = List.init many_resources (fun x -> (x, fences b x)) in
        touch p at;
        if alive p.s b then happens p at (Dies b);
        Hashtbl.replace p.body_of body again;
        claim at again held fences;
        again
    | None -> b
  in
  (* The keys and fences of a body that a request has extended, though it is not intact. *)
  let extended at request b x =
    match p.s.keys b x with
    | Some k when x = request.x && k.owner = request.c ->
        Some { k with ends = max k.ends (p.y.server_clock b at + request.ttl) }
    | k -> k
  in
  let cause = ref None (* of the next line: the request that was served *) in
  let one i line =
    let at = line.at and served_now = !cause in
    last := at;
    cause := None;
    match (line.kind, line.words) with
    | "M", [ message; op; k; c; ttl; x; t ] ->
        Hashtbl.replace p.clients (number message) (number k);
        sent p at (number message) op (number c) (number ttl) (number x) (number t)
    | "V", [ body; message; part; verdict ] -> (
        match Hashtbl.find_opt p.requests (number message) with
        | Some request when verdict <> "n" ->
            let b = later_body at i (number body) (extended at request) (fun b -> p.s.fence b) in
            cause := Some request;
            served p at b (shows_keys lines i) (number message) request (number part) verdict
        | Some _ -> ()
        | None -> raise (Unreadable ("nobody sent what is served: " ^ line.text)))
    | "B", _ -> (
        match numbers line with
        | [ body; _; _; evicted ] when keys_go && evicted > 0 ->
            let held, _ = block p lines i in
            let b = Hashtbl.find p.body_of body in
            List.iter (fun (x, key) -> if key = None && p.s.keys b x <> None then happens p at (Proved.Ends (b, x))) held
        | [ body; _; former; evicted ] ->
            p.evicted <- max p.evicted evicted;
            let held, fences = block p lines i in
            touch p at;
            (match if former = 0 then None else Hashtbl.find_opt p.body_of (former - 1) with
            | Some b when alive p.s b -> happens p at (Dies b)
            | _ -> ());
            claim at (Hashtbl.find p.body_of body) held fences
        | _ -> raise (Unreadable line.text))
    | kind, _ when List.mem kind timeless -> ()
    | kind, words when is_of_broken p kind words -> ()
    | "U", [ c ] ->
        let c = number c in
        if p.s.phase_of c <> Idle then begin
          fact p at (Released c);
          p.known <- List.remove_assoc c p.known;
          p.broken <- c :: p.broken
        end
    | kind, _ -> (
        match (kind, numbers line) with
        | "Y", [ body; x; token; ends ] ->
            let b = Hashtbl.find p.body_of body and key = key_of p x token ends in
            touch p at;
            ghost_moves p at b x key;
            fact p at (Key_is (b, x, key))
        | "F", [ body; x; t ] ->
            let b = Hashtbl.find p.body_of body in
            touch p at;
            (* A request may raise it, though it is no vote. *)
            (if t > p.s.fence b x then
               match served_now with
               | Some request when request.x = x && t <= request.t -> happens p at (Bumps (b, x, t))
               | None when Hashtbl.length p.requests = 0 -> happens p at (Bumps (b, x, t)) (* the floor *)
               | _ -> raise Refused_here);
            fact p at (Fence_is (b, x, t))
        | "I", body :: is_intact :: writer :: record ->
            let _, fences = block p lines i in
            let known = ranked (triples record) in
            let b = later_body at i body (fun b -> p.s.keys b) (fun _ -> find_in fences 0) in
            if is_intact = 1 && not (intact p.s b) then install p at b (writer - 1) fences known;
            if is_intact = 1 then begin
              fact p at (Is_intact b);
              List.iter
                (fun (m, r) ->
                  touch p at;
                  if r > p.s.knows b m then happens p at (Learns (b, m, r));
                  fact p at (Knows_is (b, m, r)))
                known
            end;
            register p at
        | "A", [ message ] ->
            List.iter
              (fun moment ->
                Hashtbl.replace p.got moment ();
                Hashtbl.replace p.readers moment (Hashtbl.find p.clients message))
              (Option.value (Hashtbl.find_opt p.seen_by message) ~default:[])
        | "Q", [ c; rest_ms; held; t ] -> fact p at (Says (c, rest_ms, held = 1, t))
        | "Z", [ body; x ] -> happens p at (Proved.Ends (Hashtbl.find p.body_of body, x))
        | "W", [ c; until; t ] -> won p at c until t
        | "P", [ c; until ] -> prolonged p at c until
        | "L", [ c ] ->
            p.known <- List.remove_assoc c p.known;
            fact p at (Lost c)
        | "R", [ c ] ->
            p.known <- List.remove_assoc c p.known;
            fact p at (Released c)
        | _ -> raise (Unreadable line.text))
  in
  let begin_ghosts () =
    if Array.exists (fun l -> match (l.kind, l.words) with "M", _ :: "S" :: _ -> true | _ -> false) lines then
      for x = 0 to many_resources - 1 do
        happens p 0 (Begins (p.ghost + x, 0));
        fact p 0 (Released (p.ghost + x))
      done
  in
  begin_ghosts ();
  let rec go i =
    if i = Array.length lines then None
    else
      match one i lines.(i) with
      | () -> go (i + 1)
      | exception Refused_here ->
          let { at; kind; words; text } = lines.(i) in
          Some (if is_excused p at kind words then Left (text, "a server evicted a key within the last second") else Refused text)
  in
  let refused = go 0 in
  (p, refused)

(* ---- runs --------------------------------------------------------------------------------------------------------- *)

(* The lines within ttl_max after a step: there, the theorem on exclusion does not speak. *)
let without_exclusion world lines =
  let rec steps = function
    | g :: (_ :: _ as older) -> if g.shown > clock_at older g.from then g.from :: steps older else steps older
    | _ -> []
  in
  let all = List.concat_map steps world.body_clocks in
  let near at = List.exists (fun step -> step <= at && at < step + world.longest_ttl) all in
  Array.fold_left (fun n l -> if Traces.happens l.text && near l.at then n + 1 else n) 0 lines

let judge_by keys_go texts =
  let lines = lines_of texts in
  match List.find_opt (fun l -> l.kind = "G") (Array.to_list lines) with
  | None -> Left (List.hd texts, "there is no quorum")
  | Some l -> (
      let nodes, longest_ttl = match numbers l with [ n; _; ttl ] -> (n, ttl) | _ -> raise (Unreadable l.text) in
      let slots = Array.fold_left (fun slots l -> if l.kind = "T" then number (List.hd l.words) else slots) 0 lines in
      let bodies = scan keys_go nodes lines in
      let world = world_of lines bodies nodes longest_ttl in
      if not (is_sound world) then Left (List.hd texts, "outside the proof's assumptions")
      else
        let p, stopped = first_pass keys_go world slots bodies lines in
        match stopped with
        | Some (Refused _ as why) -> why
        | _ -> (
            let times = List.init p.s.moment_now (fun m -> p.y.time_at m) in
            let world = { world with times; ends_at = p.last } in
            match if is_sound world then check world (List.rev p.facts) else None with
            | Some _ -> Option.value stopped ~default:(Accepted (without_exclusion world lines))
            | None -> Refused "the second pass"))

(* Where an eviction explains a lock, keys may go: then exclusion is not promised for a while. *)
let judge texts =
  match judge_by false texts with
  | Left _ as left -> ( match judge_by true texts with Accepted _ as accepted -> accepted | _ -> left)
  | verdict -> verdict

let () = main judge
