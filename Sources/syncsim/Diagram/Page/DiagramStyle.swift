import SyncSimulation

/// The page's style sheets.
enum DiagramStyle {
    /// The style of everything around the drawing.
    static let page: StaticString = """
        *{box-sizing:border-box}
        html{scroll-padding:120px 0 90px}
        body{margin:0;background:var(--page);color:var(--ink);font:14px/1.45 system-ui,"Segoe UI",Roboto,\
        "Helvetica Neue",\
        "Noto Sans","DejaVu Sans",Arial,sans-serif;width:max-content;min-width:100%;padding-bottom:64px}
        .top{position:sticky;left:0;width:calc(100vw - 20px);padding:20px 24px 8px}
        .heading{display:flex;align-items:center;gap:16px;max-width:1360px}
        h1{font-size:22px;line-height:1.25;margin:0;flex:1;overflow-wrap:anywhere}
        h2{font-size:14px;margin:0 0 4px;color:var(--danger)}
        button{font:inherit;color:var(--ink);background:var(--panel);border:1px solid var(--soft);border-radius:6px;\
        padding:4px 12px;cursor:pointer}
        .subtitle{margin:4px 0 0;font-size:15px;max-width:1100px;overflow-wrap:anywhere}
        .summary{margin:2px 0 12px;color:var(--soft);max-width:1100px}
        .held{color:var(--good);font-weight:600}
        .violations{background:var(--alarm);border-left:5px solid var(--danger);border-radius:4px;padding:10px 14px;\
        margin:0 0 12px;max-width:1100px}
        .violations ol{margin:0;padding-left:22px}
        .violations li{overflow-wrap:anywhere}
        .violations a{color:var(--danger);font-weight:700}
        .violations small{color:var(--soft);font-size:12px;white-space:nowrap}
        .legend{margin:0 0 8px;font-size:12px;max-width:1360px}
        summary{cursor:pointer;color:var(--soft);font-weight:600}
        .legend ul{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:6px 0 0;padding:0}
        .legend li{display:flex;align-items:center;gap:6px;color:var(--soft)}
        main{--gutter:116px;--words:minmax(230px,1fr);padding:0 0 0 8px}
        .heads{position:sticky;top:0;z-index:3;display:grid;\
        grid-template-columns:var(--gutter) var(--lanes) var(--words);\
        background:var(--page);border-bottom:1px solid var(--soft);height:46px}
        .corner{align-self:end;padding:0 8px 5px;color:var(--soft);font-size:12px}
        .heads .corner{position:sticky;left:0;background:var(--page);z-index:2;height:100%;display:flex;align-items:end}
        .heads .corner.words{left:auto;right:0}
        .lanes{position:relative}
        .lanes .panel{position:absolute;top:0;bottom:0;background:var(--panel);border-radius:6px 6px 0 0;\
        padding:5px 8px 0 10px}
        .lanes span{display:block;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font-size:13px;\
        line-height:19px}
        .lanes .replica,.lanes .remote{font-weight:700}
        .lanes .localStore{font-size:11px;line-height:15px;color:var(--soft);text-align:right}
        .lanes .localStore:only-child{text-align:left}
        .body{position:relative}
        .body>svg{position:absolute;left:var(--gutter);top:0;z-index:1;pointer-events:none}
        .rows{list-style:none;margin:0;padding:0}
        .rows li{display:grid;grid-template-columns:var(--gutter) var(--lanes) var(--words);line-height:24px;\
        font-size:12px}
        .time{grid-column:1;position:sticky;left:0;z-index:2;background:var(--page);padding:0 8px 0 0;text-align:right;\
        color:var(--soft);font:11px/24px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
        white-space:nowrap;overflow:hidden}
        .rows .words{grid-column:3;container-type:inline-size;position:sticky;right:0;z-index:2;\
        background:var(--page);padding:0 12px 0 10px;border-left:1px solid var(--pause);\
        overflow:hidden;display:flex;align-items:center}
        .said{white-space:nowrap;overflow:hidden;text-overflow:ellipsis;min-width:0}
        .event .words{box-shadow:inset 0 -1px var(--pause)}
        .pause .time{display:flex;flex-direction:column;justify-content:flex-end;line-height:14px;padding-bottom:5px}
        .pause .time i{font-style:normal;font-size:10.5px;margin:4px 0 auto}
        .pause .time b{color:var(--ink);font-size:12px}
        .event em{font-style:normal;color:var(--soft);display:inline-block;min-width:58px}
        .event b{font-weight:600}
        .passing .words{color:var(--soft)}
        .passing b{font-weight:400}
        .trouble b,.less .words{color:var(--trouble)}
        .less .words,.failed b{font-weight:700}
        .failed b,.violated .words,.violated .words em{color:var(--danger)}
        .violated .words{font-weight:700;background:var(--alarm)}
        .violated .said{white-space:normal;line-height:18px;max-height:36px}
        .violated .time{line-height:40px;background:var(--alarm);color:var(--danger)}
        .healed .words,.healed .time{line-height:30px}
        .healed .words,.healed .words em{color:var(--good);font-weight:700}
        @container (max-width:360px){.said{white-space:normal;font-size:10.5px;line-height:11.5px;max-height:23px}\
        .event .said em{min-width:0}.violated .said{line-height:13px;max-height:39px}}
        .rows .lit,.rows .lit .time,.rows .lit .words{background:var(--lit)}
        .event:hover,.event:hover .time,.event:hover .words{background:var(--lit)}
        :focus-visible{outline:3px solid var(--link);outline-offset:2px}
        .event:focus-visible{outline-width:2px;outline-offset:-1px}
        .event:focus-visible .time,.event:focus-visible .words{\
        box-shadow:inset 0 1px var(--link),inset 0 -1px var(--link)}
        .event:target .time,.event:target .words{box-shadow:inset 0 0 0 2px var(--danger)}
        .table{position:sticky;left:0;width:calc(100vw - 20px);padding:16px 24px;overflow-x:auto}
        table{border-collapse:collapse;font-size:12px;margin-top:8px}
        th,td{text-align:left;vertical-align:top;padding:3px 10px 3px 0;border-bottom:1px solid var(--pause)}
        td:nth-child(-n+4){white-space:nowrap}
        td:last-child{overflow-wrap:anywhere}
        #full{position:fixed;left:0;right:0;bottom:0;z-index:5;margin:0;padding:10px 24px;background:var(--panel);\
        border-top:2px solid var(--link);font-size:13px;overflow-wrap:anywhere;white-space:pre-line;max-height:30vh;\
        overflow:hidden;pointer-events:none}
        #full[hidden]{display:none}
        @media (max-width:1000px){.top,.table{padding-left:12px;padding-right:12px}main{padding-left:2px;\
        --gutter:112px;\
        --words:minmax(190px,1fr)}.rows .words{padding:0 6px}}
        @media (max-width:700px){body{width:auto}.top,.table{position:static;width:auto;overflow:visible}\
        .violations small{white-space:normal}.legend{font-size:13px}\
        main{--gutter:104px;--words:384px;zoom:1.1;padding:0;overflow:auto;max-height:82vh;\
        scroll-padding:60px 0 48px 108px;border:solid var(--pause);border-width:1px 0}.heads,.body{width:max-content}\
        .time{padding-right:4px;box-shadow:0 1px var(--page)}.heads .corner.words,.rows .words{position:static}\
        table,tbody,tr{display:block}table{font-size:13px}\
        thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}\
        tr{padding:6px 0;border-bottom:1px solid var(--pause)}td{display:inline;border:0;padding:0 8px 0 0}\
        td:nth-child(-n+4){white-space:normal;color:var(--soft)}td:last-child{display:block;padding:0}\
        #full{padding:10px 12px}}
        @media print{main{max-height:none!important;zoom:1!important}\
        .heads,.time,.words{position:static!important}#full{display:none}}

        """

    /// The style of the drawing.
    static let drawing: StaticString = """
        rect.panel{fill:var(--soft);fill-opacity:.06}
        path.pause{stroke:var(--soft);stroke-width:1;stroke-dasharray:1 5;fill:none}
        path.healed{stroke:var(--good);stroke-width:3;fill:none}
        rect.alarm,rect.plate{fill:var(--alarm)}
        .band rect{fill:var(--trouble);fill-opacity:.07}
        .band path{stroke:var(--trouble);stroke-opacity:.34;fill:none}
        .band.down rect{fill:var(--soft);fill-opacity:.18}
        .band.full path{stroke-opacity:.6}
        .band.wrongClock path{stroke-opacity:.95}
        .life{stroke:var(--life);stroke-width:2;fill:none}
        .life.localStore{stroke-width:5;stroke:var(--answer);stroke-opacity:.55}
        .life.remote{stroke-width:5}
        .life.dead{stroke-width:1.5;stroke-dasharray:1 5;stroke-opacity:1}
        .b0{--c:var(--b0)}.b1{--c:var(--b1)}.b2{--c:var(--b2)}.b3{--c:var(--b3)}
        .b4{--c:var(--b4)}.b5{--c:var(--b5)}.b6{--c:var(--b6)}.b7{--c:var(--b7)}
        .belief rect{fill:var(--c);stroke:var(--c);stroke-width:1.5}
        .belief.idle rect{fill:none;stroke-dasharray:3 2}
        .pill{fill:var(--page);stroke:var(--c);stroke-width:1.5}
        .pill.idle{stroke-dasharray:3 2}
        .activity{fill:var(--page);stroke:var(--life);stroke-width:1.5}
        .activity.failed{stroke:var(--danger)}
        .message path{fill:none;stroke:var(--m);stroke-width:1.5}
        .message .reach{stroke:transparent;stroke-width:9;pointer-events:stroke}
        .message .tip{fill:var(--m);stroke:none}
        .message.request{--m:var(--request)}
        .message.answer,.message.underway{--m:var(--answer)}
        .message.repeated .shaft{stroke-dasharray:6 4}
        .message.underway .shaft{stroke-dasharray:2 4}
        .message.lost{--m:var(--trouble)}
        .message.lost .cross{stroke-width:2.5}
        .mark path{fill:var(--page);stroke:var(--life);stroke-width:1.5;pointer-events:all}
        .mark.begun path,.mark.started path{fill:var(--life)}
        .mark.sent path{fill:var(--life);stroke:none}
        .mark.failed path{fill:var(--danger);stroke:var(--page)}
        .mark.crashed path,.mark.store path,.mark.clock path,.mark.disturbed path{stroke:var(--trouble);stroke-width:2}
        .mark.disturbed path{fill:none}
        .mark.note path{fill:var(--soft)}
        .mark.violated path{fill:var(--danger);stroke:var(--page);stroke-width:2}
        .mark.violated text{fill:var(--page);font:700 15px system-ui,sans-serif;text-anchor:middle}
        .label{font:10.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--ink);\
        paint-order:stroke;stroke:var(--panel);stroke-width:3.5px;stroke-linejoin:round;white-space:pre;\
        pointer-events:all}
        .label.end{text-anchor:end}
        .label.failure{fill:var(--danger);font-weight:700}
        .label.trouble{fill:var(--trouble)}
        .label.violation{fill:var(--danger);font-weight:700;stroke:var(--alarm)}
        .label.belief{stroke:var(--page)}
        .label.reminder{fill:var(--soft)}
        .band,.belief{pointer-events:all}
        .message.lit .shaft,.message.lit .cross{stroke-width:3.5}
        .lit.mark path,.lit.activity{stroke:var(--link);stroke-width:2.5}
        .label.lit{stroke:var(--lit);stroke-width:5px}
        .lit.band rect{fill-opacity:.25}
        .lit.belief rect{stroke:var(--ink)}
        body.lighting .body .message:not(.lit){opacity:.3}

        """
}
